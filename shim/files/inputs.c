/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "logd/ring/client.h"
#include "shim/core/thread.h"
#include "shim/files/asynchronous.h"
#include "shim/files/content_copy.h"
#include "shim/files/paths.h"
#include "shim/files/small_inputs.h"
#include "shim/files/write_order.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"

/* A file that the program has opened. */
struct seen {
	uint32_t note; /* of its content; 0: none */
	bool own;      /* the program writes it: see struct sr_opened_file */
	bool kept;     /* the noted content is kept */
	bool mapped;   /* the program stores into it: its content has no order with its calls */
	/* When it was noted, or first opened. */
	uint64_t size;
	int64_t changed;
};

static struct sr_client *daemon_client; /* NULL: nothing is recorded */
static bool keep_content, of_job;
static int64_t began;     /* the recording: ns since the epoch */
static struct sr_map all; /* struct seen, by the file's key */
static atomic_uint notes;
static atomic_bool complained, has_children, has_moved;
static atomic_bool may_be_unheld; /* a small file: the daemon holds it open when it has its record */

void sr_files_start(struct sr_client *client, bool keep, bool job)
{
	struct timespec now = {0};

	/* File systems use this clock. */
	sr_sys_clock_gettime(CLOCK_REALTIME_COARSE, &now);
	began = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	sr_paths_start();
	daemon_client = client;
	keep_content = keep;
	of_job = job;
	atomic_store(&notes, 0);
}

void sr_files_stop(void)
{
	daemon_client = NULL;
	sr_paths_stop();
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

static dev_t device_of(const struct statx *st)
{
	return makedev(st->stx_dev_major, st->stx_dev_minor);
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

static bool is_made_up(unsigned long type)
{
	switch (type) {
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

bool sr_files_made_up(int fd)
{
	struct statfs fs;

	return sr_syscall(SYS_fstatfs, fd, SR_ARG(&fs), 0, 0, 0, 0) ||
	       is_made_up((unsigned long)fs.f_type);
}

/* The device of the file system whose files were last found to have content of their own. */
static _Atomic uint64_t usual_device;

static bool has_content(int fd, const struct statx *st)
{
	uint64_t device = 1 + makedev(st->stx_dev_major, st->stx_dev_minor);

	if (atomic_load_explicit(&usual_device, memory_order_relaxed) == device)
		return true;
	if (sr_files_made_up(fd))
		return false;
	atomic_store_explicit(&usual_device, device, memory_order_relaxed);
	return true;
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

/*
 * Gives the daemon the content, since the file itself is about to change.  Of larger files it is not kept: a replay then
 * expects them as they were.
 */
static bool keep_now(int fd, const char *path, uint32_t note, const struct statx *st)
{
	int copy;

	if (sr_small_input(&sr_self, fd, st, path, note, true))
		return true;
	copy = sr_copy_content(fd, st->stx_size);
	if (copy < 0)
		return false;
	tell_daemon(copy, path, note, true);
	sr_sys_close(copy);
	return true;
}

/* The content is as it was when the file was noted, or first opened. */
static bool is_same(const struct seen *s, const struct statx *st)
{
	return s->size == st->stx_size && s->changed == changed_at(st);
}

/* How long before the program a launcher, or a rank that was started first, makes what it shares with it. */
#define LAUNCH_NS 60000000000ll

/*
 * Was it written, renamed or linked since the recording began?  Then a replay may not find it, at
 * this path or as it is.
 */
static bool is_recent(const struct statx *st)
{
	return changed_at(st) >= began || atomic_load_explicit(&has_moved, memory_order_relaxed) ||
	       (int64_t)st->stx_ctime.tv_sec * 1000000000 + st->stx_ctime.tv_nsec >= began;
}

static bool is_written_since_launch(const struct statx *st)
{
	return changed_at(st) >= began - LAUNCH_NS;
}

/*
 * Ranks that were started first make files where the others meet them, and remove them when they end.  A program that
 * reads more new files than that works on what has just been made: to keep it all would cost it much.
 */
#define MEETING_FILES 500
#define MEETING_MOST  (64ull << 20)

static bool may_be_meeting(const struct statx *st)
{
	static atomic_uint kept;

	return st->stx_size <= MEETING_MOST && is_written_since_launch(st) && atomic_fetch_add(&kept, 1) < MEETING_FILES;
}

static void number(struct seen *s, const struct statx *st)
{
	s->note = atomic_fetch_add(&notes, 1) + 1;
	s->size = st->stx_size;
	s->changed = changed_at(st);
}

static void note(struct seen *s, int fd, const struct statx *st, const char *path, bool at_once)
{
	const bool keep = keep_content || may_be_meeting(st);

	number(s, st);
	s->kept = at_once && keep_now(fd, path, s->note, st);
	if (s->kept)
		return;
	if (!sr_small_input(&sr_self, fd, st, path, s->note, keep))
		tell_daemon(fd, path, s->note, keep);
	else if (!keep)
		atomic_store_explicit(&may_be_unheld, true, memory_order_relaxed);
}

bool sr_files_is_others(int fd)
{
	struct statx st;
	const struct seen *s;

	if (!daemon_client || !is_regular(fd, "", AT_EMPTY_PATH, &st))
		return false;
	s = sr_map_get(&all, key_of(&st));
	return s && s->note && is_written_since_launch(&st);
}

/* What processes tell each other in files is short. */
#define SHARED_MOST (64u << 10)

static bool is_readable(int flags)
{
	return (flags & O_ACCMODE) != O_WRONLY;
}

bool sr_files_is_shared(int fd)
{
	struct statx st;

	return daemon_client && is_regular(fd, "", AT_EMPTY_PATH, &st) && st.stx_size <= SHARED_MOST && has_content(fd, &st) &&
	       is_readable((int)sr_sys_fcntl(fd, F_GETFL, 0));
}

void sr_files_keep(int fd)
{
	struct statx st;
	struct seen *s;
	char path[320];

	if (!daemon_client || !is_regular(fd, "", AT_EMPTY_PATH, &st))
		return;
	s = sr_map_get(&all, key_of(&st));
	if (!s || !s->note || s->kept)
		return;
	sr_find_path(fd, path, sizeof(path));
	s->kept = keep_now(fd, path, s->note, &st);
}

void sr_files_ends(int dirfd, const char *path, bool link)
{
	struct statx st;
	struct seen *s;
	char full[320];
	int fd;

	sr_small_input_end(&sr_self);
	if (!daemon_client || !path ||
	    !is_regular(dirfd, path, link ? 0 : AT_SYMLINK_NOFOLLOW, &st))
		return;
	s = sr_map_get(&all, key_of(&st));
	if (!s || !s->note || s->own || s->kept || !is_same(s, &st))
		return;
	fd = (int)sr_syscall(SYS_openat, dirfd, SR_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return;
	sr_find_path(fd, full, sizeof(full));
	s->kept = keep_now(fd, full, s->note, &st);
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
		s->kept = keep_now(fd, f->path, s->note, st);
	f->note = f->size ? s->note : 0;
	s->own = true;
	s->size = f->size;
	s->changed = changed_at(st);
}

/*
 * The program has written it.  So may have its children, and other processes: of a small file that it is about to read the
 * content is noted whoever has written it.
 */
static void opened_own(struct seen *s, int fd, const struct statx *st, struct sr_opened_file *f, int flags)
{
	bool read = is_readable(flags) && f->size <= SHARED_MOST;

	f->own = true;
	if (!f->size || s->mapped || is_same(s, st) || !(read || atomic_load_explicit(&has_children, memory_order_relaxed)))
		return;
	note(s, fd, st, f->path, true);
	sr_async_copied(device_of(st), st->stx_ino);
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

/* The descriptors of files that the program writes, also those by which it reads them; with more, the oldest is forgotten. */
static struct writer {
	int fd;
	uint64_t key;
	struct seen *file; /* NULL: free */
} writers[REMEMBERED];
static unsigned int next_writer;
static struct sr_lock writers_lock;

static void remember(int fd, struct seen *s, uint64_t key)
{
	sr_lock(&writers_lock);
	writers[next_writer++ % REMEMBERED] = (struct writer){fd, key, s};
	sr_unlock(&writers_lock);
}

/* Is the descriptor still what it was? */
static bool is_open(const struct writer *w, struct statx *st)
{
	return w->file && is_regular(w->fd, "", AT_EMPTY_PATH, st) && key_of(st) == w->key;
}

/* Copies what is remembered; forgets a descriptor that is not what it was, and returns false. */
static bool recall(unsigned int i, struct writer *w, struct statx *st)
{
	sr_lock(&writers_lock);
	*w = writers[i];
	if (w->file && !is_open(w, st))
		w->file = writers[i].file = NULL;
	sr_unlock(&writers_lock);
	return w->file;
}

/* Until the event of this call is drawn, no other thread changes the file, and no request of the program's. */
static void hold(const struct statx *st)
{
	sr_file_hold(&sr_self, device_of(st), st->stx_ino);
	sr_async_await(device_of(st), st->stx_ino);
}

/* Children that have not been waited for. */
static _Atomic uint32_t alive;

/* The child may replace what the program has read.  On a busy machine the daemon may be without a processor for long. */
static void have_inputs_held(void)
{
	if (daemon_client && atomic_exchange(&may_be_unheld, false) &&
	    !sr_client_finish(daemon_client, SR_CLIENT_STALL_TIMEOUT_MS))
		sr_client_await_held(daemon_client);
}

/* What the program has written so far is no change by its children; but if one is alive already, nobody can tell. */
void sr_files_child_made(void)
{
	struct writer w;
	struct statx st;

	sr_small_input_end(&sr_self);
	have_inputs_held();
	atomic_store_explicit(&has_children, true, memory_order_relaxed);
	if (atomic_fetch_add(&alive, 1))
		return;
	for (unsigned int i = 0; daemon_client && i < REMEMBERED; i++) {
		if (!recall(i, &w, &st))
			continue;
		w.file->size = st.stx_size;
		w.file->changed = changed_at(&st);
	}
}

void sr_files_mapped(struct sr_thread *t, int fd)
{
	struct statx st;
	struct seen *s;

	if (!daemon_client || !is_regular(fd, "", AT_EMPTY_PATH, &st))
		return;
	hold(&st);
	s = sr_map_get(&all, key_of(&st));
	if (s)
		s->mapped = true;
	sr_files_release(t);
}

void sr_files_moved(void)
{
	atomic_store_explicit(&has_moved, true, memory_order_relaxed);
}

/*
 * Keeps the content as it is now, if that is new.  Another thread may close the descriptor at any
 * time and open another file by its number, so only the copy leaves this process, and only if the
 * descriptor still leads to the file after it was made.  (A duplicate would not do: closing it
 * drops the program's locks.)
 */
static bool keep_changed(const struct writer *w, struct sr_opened_file *f)
{
	struct seen *s = w->file;
	struct statx st, after;
	int copy;

	if (!is_open(w, &st) || s->mapped || is_same(s, &st))
		return false;
	sr_find_path(w->fd, f->path, sizeof(f->path));
	copy = sr_copy_content(w->fd, st.stx_size);
	if (!is_open(w, &after)) {
		if (copy >= 0)
			sr_sys_close(copy);
		return false;
	}
	sr_async_copied(device_of(&st), st.stx_ino);
	number(s, &st);
	s->kept = copy >= 0;
	tell_daemon(copy < 0 ? w->fd : copy, f->path, s->note, copy >= 0 || keep_content);
	if (copy >= 0)
		sr_sys_close(copy);
	f->class = SR_FD_FILE;
	f->note = s->note;
	f->key = w->key;
	f->size = st.stx_size;
	f->own = true;
	return true;
}

void sr_files_child_ended(void)
{
	uint32_t n = atomic_load(&alive);

	while (n && !atomic_compare_exchange_weak(&alive, &n, n - 1))
		;
}

bool sr_files_next_changed(uint32_t *from, struct sr_opened_file *f)
{
	struct writer w;
	struct statx st;

	if (!daemon_client || !atomic_load_explicit(&has_children, memory_order_relaxed))
		return false;
	while (*from < REMEMBERED) {
		if (!recall((*from)++, &w, &st) || is_same(w.file, &st))
			continue;
		sr_files_hold_many(&sr_self);
		hold(&st);
		if (keep_changed(&w, f))
			return true;
	}
	return false;
}

bool sr_files_opened(int fd, int flags, struct sr_opened_file *f)
{
	f->path[0] = 0;
	return sr_files_opened_at(fd, flags, f);
}

bool sr_files_opened_at(int fd, int flags, struct sr_opened_file *f)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	struct statx st;
	struct seen *s;

	f->note = 0;
	f->own = f->shared = false;
	f->key = f->size = 0;
	if (!f->path[0])
		sr_find_path(fd, f->path, sizeof(f->path));
	if (!daemon_client || fd < 0 || flags & O_PATH || !is_regular(fd, "", AT_EMPTY_PATH, &st))
		return false;
	sr_small_input_end(&sr_self);
	hold(&st);
	/* Another thread may have changed it before that. */
	if (sr_self.holds_files && !is_regular(fd, "", AT_EMPTY_PATH, &st))
		return false;
	f->key = key_of(&st);
	f->size = st.stx_size;
	s = has_content(fd, &st) ? see(f->key) : NULL;
	if (!s)
		return false;
	if (writes || s->own)
		remember(fd, s, f->key);
	f->shared = of_job && is_readable(flags) && (writes || s->own);
	if (s->own)
		opened_own(s, fd, &st, f, flags);
	else if (writes || flags & O_TRUNC)
		becomes_own(s, fd, &st, f);
	else
		opened_input(s, fd, &st, f);
	return true;
}
