/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "logd/ring/client.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"

/*
 * Content that the program is about to change is copied before it goes on.  Of larger files it is
 * not kept: a replay then expects them as they were.
 */
#define KEPT_AT_ONCE (64ull << 20)

/* A file that the program has opened. */
struct seen {
	uint32_t note; /* of its content; 0: none */
	bool own;      /* the program writes it: see struct sr_opened_file */
	bool kept;     /* the noted content is kept */
	/* When it was noted, or first opened. */
	uint64_t size;
	int64_t changed;
};

static struct sr_client *daemon_client; /* NULL: nothing is recorded */
static bool keep_content;
static int64_t began;     /* the recording: ns since the epoch */
static struct sr_map all; /* struct seen, by the file's key */
static atomic_uint notes;
static atomic_bool complained, has_children, has_moved;

void sr_files_start(struct sr_client *client, bool keep)
{
	struct timespec now = {0};

	/* File systems use this clock. */
	sr_sys_clock_gettime(CLOCK_REALTIME_COARSE, &now);
	began = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	daemon_client = client;
	keep_content = keep;
	atomic_store(&notes, 0);
}

void sr_files_stop(void)
{
	daemon_client = NULL;
}

/*
 * The key of a file: device, inode and birth time. The birth time is included because the
 * inode number of a removed file is used again. If two files had the same key, the second
 * would not be noted; with 10^5 files the probability is about 10^-9.
 */
static uint64_t key_of(const struct statx *st)
{
	uint64_t device = (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
	uint64_t born = st->stx_mask & STATX_BTIME
			    ? (uint64_t)st->stx_btime.tv_sec * 1000000000 + st->stx_btime.tv_nsec
			    : 0;
	uint64_t key = st->stx_ino * 0xff51afd7ed558ccdull;

	key = (key ^ key >> 29 ^ device) * 0xc4ceb9fe1a85ec53ull;
	key = (key ^ key >> 31 ^ born) * 0x9e3779b97f4a7c15ull;
	return key ? key : 1;
}

static int64_t changed_at(const struct statx *st)
{
	return (int64_t)st->stx_mtime.tv_sec * 1000000000 + st->stx_mtime.tv_nsec;
}

static bool is_regular(int dirfd, const char *path, int flags, struct statx *st)
{
	return !sr_syscall(SYS_statx, dirfd, SR_ARG(path), flags, STATX_BASIC_STATS | STATX_BTIME,
			   SR_ARG(st), 0) &&
	       S_ISREG(st->stx_mode);
}

bool sr_files_made_up(int fd)
{
	struct statfs fs;

	if (sr_syscall(SYS_fstatfs, fd, SR_ARG(&fs), 0, 0, 0, 0))
		return true;
	switch ((unsigned long)fs.f_type) {
	case 0x19800202: /* mqueue */
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

/* The full path as the process sees it, or "" if it does not fit. */
static void find_path(int fd, char *path, size_t size)
{
	char self[40];
	long n;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = sr_syscall(SYS_readlinkat, AT_FDCWD, SR_ARG(self), SR_ARG(path), (long)size, 0, 0);
	path[n > 0 && n < (long)size ? n : 0] = 0;
}

/* ------------------------------------------------------------------- notes */

static void complain(const char *path, int error)
{
	if (!atomic_exchange(&complained, true))
		sr_say("%s (and perhaps others) is not noted as an input (%s): a replay cannot "
		       "tell whether it has changed",
		       path[0] ? path : "a file", strerrorname_np(-error));
}

static void tell_daemon(int fd, const char *path, uint32_t note, bool keep)
{
	int err = sr_client_add_file(daemon_client, fd, path, note, keep);

	/* -ENOTCONN: the client has disconnected and has already reported that. */
	if (err && err != -ENOTCONN)
		complain(path, err);
}

static bool copy_file(int from, int to, uint64_t size)
{
	off_t at = 0;

	while ((uint64_t)at < size)
		if (sr_syscall(SYS_sendfile, to, from, SR_ARG(&at), (long)(size - (uint64_t)at), 0,
			       0) <= 0)
			return false;
	return true;
}

/* Gives the daemon a copy of the content, since the file itself is about to change. */
static bool keep_copy(int fd, const char *path, uint32_t note, uint64_t size)
{
	uint64_t limit[2] = {0};
	int copy;

	/* The kernel would kill the program for a copy that passes its limit. */
	sr_sys_getrlimit(RLIMIT_FSIZE, limit);
	if (size > KEPT_AT_ONCE || size > limit[0])
		return false;
	copy = (int)sr_sys_memfd_create("sreplay input", MFD_CLOEXEC);
	if (copy < 0)
		return false;
	if (copy_file(fd, copy, size))
		tell_daemon(copy, path, note, true);
	sr_sys_close(copy);
	return true;
}

/* fd may be open for writing only. */
static bool keep_now(int fd, const char *path, uint32_t note, uint64_t size)
{
	char self[40];
	bool kept;
	int again;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	again = (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(self), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (again < 0)
		return false;
	kept = keep_copy(again, path, note, size);
	sr_sys_close(again);
	return kept;
}

/* The content is as it was when the file was noted, or first opened. */
static bool is_same(const struct seen *s, const struct statx *st)
{
	return s->size == st->stx_size && s->changed == changed_at(st);
}

/*
 * Was it written, renamed or linked since the recording began?  Then a replay may not find it, at
 * this path or as it is.
 */
static bool is_recent(const struct statx *st)
{
	return changed_at(st) >= began || atomic_load_explicit(&has_moved, memory_order_relaxed) ||
	       (int64_t)st->stx_ctime.tv_sec * 1000000000 + st->stx_ctime.tv_nsec >= began;
}

static void note(struct seen *s, int fd, const struct statx *st, const char *path, bool at_once)
{
	s->note = atomic_fetch_add(&notes, 1) + 1;
	s->size = st->stx_size;
	s->changed = changed_at(st);
	s->kept = at_once && keep_now(fd, path, s->note, st->stx_size);
	if (!s->kept)
		tell_daemon(fd, path, s->note, keep_content);
}

void sr_files_ends(int dirfd, const char *path, bool link)
{
	struct statx st;
	struct seen *s;
	char full[320];
	int fd;

	if (!daemon_client || !path ||
	    !is_regular(dirfd, path, link ? 0 : AT_SYMLINK_NOFOLLOW, &st))
		return;
	s = sr_map_get(&all, key_of(&st));
	if (!s || !s->note || s->own || s->kept || !is_same(s, &st))
		return;
	fd = (int)sr_syscall(SYS_openat, dirfd, SR_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return;
	find_path(fd, full, sizeof(full));
	s->kept = keep_copy(fd, full, s->note, st.stx_size);
	sr_sys_close(fd);
}

/* ------------------------------------------------------------------- opens */

static struct seen *see(uint64_t key)
{
	struct seen *s = sr_map_get(&all, key);
	void *old;

	if (s || !(s = sr_alloc_zeroed(sizeof(*s))))
		return s;
	return sr_map_put(&all, key, s, &old) ? NULL : s;
}

/* The program is about to write it. */
static void becomes_own(struct seen *s, int fd, const struct statx *st, struct sr_opened_file *f)
{
	if (f->size && (!s->note || !is_same(s, st)))
		note(s, fd, st, f->path, true);
	else if (f->size && !s->kept)
		s->kept = keep_now(fd, f->path, s->note, f->size);
	f->note = f->size ? s->note : 0;
	s->own = true;
	s->size = f->size;
	s->changed = changed_at(st);
}

/* The program has written it.  So may have its children. */
static void opened_own(struct seen *s, int fd, const struct statx *st, struct sr_opened_file *f)
{
	f->own = true;
	if (!f->size || is_same(s, st) ||
	    !atomic_load_explicit(&has_children, memory_order_relaxed))
		return;
	note(s, fd, st, f->path, true);
	f->note = s->note;
}

static void opened_input(struct seen *s, int fd, const struct statx *st, struct sr_opened_file *f)
{
	if (!s->note || !is_same(s, st))
		note(s, fd, st, f->path, is_recent(st));
	f->note = s->note;
}

/* ---------------------------------------------------------------- children */

#define REMEMBERED 256

/* The descriptors by which the program writes; with more, the oldest is forgotten. */
static struct {
	int fd;
	uint64_t key;
	struct seen *file; /* NULL: free */
} writers[REMEMBERED];
static atomic_uint next_writer;

static void remember(int fd, struct seen *s, uint64_t key)
{
	unsigned int i = atomic_fetch_add(&next_writer, 1) % REMEMBERED;

	writers[i].fd = fd;
	writers[i].key = key;
	writers[i].file = s;
}

/* Is the descriptor still what it was?  Otherwise it is forgotten. */
static bool is_open(unsigned int i, struct statx *st)
{
	if (!writers[i].file)
		return false;
	if (is_regular(writers[i].fd, "", AT_EMPTY_PATH, st) && key_of(st) == writers[i].key)
		return true;
	writers[i].file = NULL;
	return false;
}

void sr_files_child_made(void)
{
	struct statx st;

	atomic_store_explicit(&has_children, true, memory_order_relaxed);
	for (unsigned int i = 0; daemon_client && i < REMEMBERED; i++) {
		if (!is_open(i, &st))
			continue;
		writers[i].file->size = st.stx_size;
		writers[i].file->changed = changed_at(&st);
	}
}

void sr_files_moved(void)
{
	atomic_store_explicit(&has_moved, true, memory_order_relaxed);
}

int sr_files_next_changed(struct sr_opened_file *f)
{
	bool any = daemon_client && atomic_load_explicit(&has_children, memory_order_relaxed);
	struct statx st;

	for (unsigned int i = 0; any && i < REMEMBERED; i++) {
		struct seen *s = writers[i].file;

		if (!is_open(i, &st) || is_same(s, &st))
			continue;
		find_path(writers[i].fd, f->path, sizeof(f->path));
		note(s, writers[i].fd, &st, f->path, true);
		f->class = SR_FD_FILE;
		f->note = s->note;
		f->key = writers[i].key;
		f->size = st.stx_size;
		f->own = true;
		return writers[i].fd;
	}
	return -1;
}

void sr_files_opened(int fd, int flags, struct sr_opened_file *f)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	struct statx st;
	struct seen *s;

	f->note = 0;
	f->own = false;
	f->key = f->size = 0;
	find_path(fd, f->path, sizeof(f->path));
	if (!daemon_client || fd < 0 || flags & O_PATH || !is_regular(fd, "", AT_EMPTY_PATH, &st))
		return;
	f->key = key_of(&st);
	f->size = st.stx_size;
	if (sr_files_made_up(fd) || !(s = see(f->key)))
		return;
	if (writes)
		remember(fd, s, f->key);
	if (s->own)
		opened_own(s, fd, &st, f);
	else if (writes || flags & O_TRUNC)
		becomes_own(s, fd, &st, f);
	else
		opened_input(s, fd, &st, f);
}
