/* SPDX-License-Identifier: BSD-2-Clause */
/* file_calls.c: hooks of the calls that open files, and end what they were. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/files/changes.h"
#include "shim/files/fds.h"
#include "shim/files/inputs.h"
#include "shim/files/own_memory.h"
#include "shim/files/paths.h"
#include "shim/files/private.h"
#include "shim/files/small_inputs.h"

bool sr_open_has_mode(int flags)
{
	return flags & (O_CREAT | __O_TMPFILE);
}

/* /dev/null, /dev/zero and /dev/full behave the same in both runs. */
static bool is_constant_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && major(st->st_rdev) == 1 &&
	       (minor(st->st_rdev) == 3 || minor(st->st_rdev) == 5 || minor(st->st_rdev) == 7);
}

/* Which of the program's outputs the file is, if it was opened for writing only; 0: none. */
static int output_of(const struct stat *st, int flags, const char *path)
{
	size_t n = path ? strlen(path) : 0;
	bool error = n && (path[n - 1] == '2' || path[n - 1] == 'r'); /* /dev/fd/2, /dev/stderr */
	struct stat output;

	if ((flags & O_ACCMODE) != O_WRONLY)
		return 0;
	for (int i = 0; i < 2; i++) {
		int fd = error == (i == 0) ? STDERR_FILENO : STDOUT_FILENO;

		if (!sr_sys_fstat(fd, &output) && output.st_dev == st->st_dev &&
		    output.st_ino == st->st_ino)
			return fd;
	}
	return 0;
}

/* is_file: it is known to be a regular file. */
static enum sr_fd_class classify(int fd, int flags, const char *path, bool is_file)
{
	struct stat st;

	/* The usual case needs no more system calls. */
	if (is_file && (flags & O_ACCMODE) == O_RDONLY)
		return SR_FD_FILE;
	if (flags & O_PATH || sr_sys_fstat(fd, &st) || is_constant_device(&st))
		return SR_FD_PLAIN;
	if (output_of(&st, flags, path)) {
		sr_self.opened.size = (uint64_t)output_of(&st, flags, path);
		return SR_FD_OUTPUT;
	}
	if ((S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && !sr_files_made_up(fd))
		return S_ISREG(st.st_mode) ? SR_FD_FILE : SR_FD_PLAIN;
	return sr_own_memory_path(sr_self.opened.path) ? SR_FD_MEMORY : SR_FD_OUTSIDE;
}

/*
 * Through libc, which makes it a cancellation point, unless the program made the system call.  The
 * functions of shim/files/opens.c pass it on to libc from a section.
 */
static int open_really(const struct sr_call_desc *d, const uint64_t *a)
{
	struct sr_opened_file *file = &sr_self.opened;
	long fd = -ELOOP;

	file->path[0] = 0;
	if (sr_self.raw || !sr_threaded)
		fd = sr_open_without_links((int)a[0], (const char *)a[1], (int)a[2], (unsigned int)a[3], file->path,
					   sizeof(file->path));
	if (fd >= 0)
		return (int)fd;
	if (fd == -ENOENT || fd == -EINTR) {
		errno = (int)-fd;
		return -1;
	}
	if (sr_self.raw)
		return (int)sr_real(d, a);
	return openat((int)a[0], (const char *)a[1], (int)a[2], (mode_t)a[3]);
}

/* There is a system call only. */
static int open_resolved(const uint64_t *a)
{
	struct open_how how = {.flags = a[2], .mode = a[3], .resolve = a[4]};
	long fd = sr_syscall(SYS_openat2, (long)a[0], (long)a[1], SR_ARG(&how), sizeof(how), 0, 0);

	sr_self.opened.path[0] = 0;
	if (fd >= 0)
		return (int)fd;
	errno = (int)-fd;
	return -1;
}

static void before_opening(const uint64_t *a)
{
	sr_small_input_end(&sr_self);
	if (a[2] & O_TRUNC)
		sr_files_ends((int)a[0], (const char *)a[1], true);
}

static bool is_shared(const struct sr_opened_file *file)
{
	return file->class == SR_FD_FILE && file->shared;
}

static uint64_t opened(int fd, const uint64_t *a)
{
	struct sr_opened_file *file = &sr_self.opened;
	int error = errno;
	bool is_file;

	if (fd < 0)
		return (uint64_t)-1;
	is_file = sr_files_opened_at(fd, (int)a[2], file);
	file->class = classify(fd, (int)a[2], (const char *)a[1], is_file);
	if (file->class == SR_FD_OUTSIDE || file->class == SR_FD_MEMORY)
		sr_fd_capture(fd);
	else
		sr_fd_found_file(fd, is_shared(file));
	errno = error;
	return (uint64_t)(int64_t)fd;
}

uint64_t sr_invoke_openat(const struct sr_call_desc *d, uint64_t *a)
{
	before_opening(a);
	return opened(open_really(d, a), a);
}

uint64_t sr_invoke_openat2(const struct sr_call_desc *d, uint64_t *a)
{
	before_opening(a);
	return opened(open_resolved(a), a);
}

static void __attribute__((noreturn)) cannot_open(const char *path, long error)
{
	sr_say("the program opened %s when it was recorded, which now fails (%s)", path,
	       strerrorname_np((int)-error));
	sr_engine->fail();
}

/* Drops O_EXCL: a file that the recorded run created may exist already. */
static long open_live(const uint64_t *a)
{
	return sr_syscall(SYS_openat, (long)a[0], (long)a[1], (long)(a[2] & ~(uint64_t)O_EXCL),
			  (long)a[3], 0, 0);
}

void sr_replayed_openat(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	const struct sr_opened_file *file = &sr_self.opened;
	const char *path = (const char *)a[1];
	long fd;

	if ((int)result < 0)
		return;
	if (file->class == SR_FD_OUTSIDE) {
		sr_fd_hold((int)result);
		return;
	}
	if (file->class == SR_FD_MEMORY) {
		sr_own_memory_hold((int)result);
		return;
	}
	if (file->class == SR_FD_OUTPUT)
		fd = sr_sys_fcntl((int)file->size,
				  a[2] & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
	else if (sr_private_fd() < 0)
		fd = open_live(a);
	else
		fd = sr_private_open(file, (int)a[0], path, (int)a[2]);
	if (fd < 0)
		cannot_open(path, fd);
	sr_changes_opened(file, (int)result, (int)a[2], (unsigned int)a[3]);
	sr_fd_renumber((int)fd, (int)result);
	sr_fd_found_file((int)result, is_shared(file));
}

/* It is the process's own memory, so a replay makes it again, under the recorded number. */
uint64_t sr_invoke_memfd_create(const struct sr_call_desc *d, uint64_t *a)
{
	int fd = (int)sr_real(d, a);

	if (fd >= 0)
		sr_fd_release(fd);
	return (uint64_t)(int64_t)fd;
}

void sr_replayed_memfd_create(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	long fd = (int)result < 0 ? -1 : (int)sr_real(d, a);

	if ((int)result < 0)
		return;
	if (fd < 0)
		cannot_open((const char *)a[0], -errno);
	sr_fd_renumber((int)fd, (int)result);
	sr_fd_release((int)result);
}

/* ------------------------------------------------- what ends without a close */

uint64_t sr_invoke_truncate(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_opened_file *file = &sr_self.opened;
	const char *path = (const char *)a[0];
	long fd = sr_syscall(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0,
			     0, 0);

	memset(file, 0, sizeof(*file));
	if (fd >= 0) {
		file->class = classify((int)fd, O_WRONLY, path, false);
		if (file->class == SR_FD_FILE)
			sr_files_opened((int)fd, O_WRONLY, file);
		sr_sys_close((int)fd);
	}
	return sr_real(d, a);
}

uint64_t sr_invoke_unlink(const struct sr_call_desc *d, uint64_t *a)
{
	if (!(a[2] & AT_REMOVEDIR))
		sr_files_ends((int)a[0], (const char *)a[1], false);
	return sr_real(d, a);
}

/* Both names may have led to an input. */
uint64_t sr_invoke_rename(const struct sr_call_desc *d, uint64_t *a)
{
	bool at = d->nargs > 2;
	struct stat st;

	if (!sr_syscall(SYS_newfstatat, at ? (long)a[0] : AT_FDCWD, (long)a[at ? 1 : 0],
			SR_ARG(&st), AT_SYMLINK_NOFOLLOW, 0, 0) &&
	    S_ISDIR(st.st_mode))
		sr_files_moved();
	sr_files_ends(at ? (int)a[0] : AT_FDCWD, (const char *)a[at ? 1 : 0], false);
	sr_files_ends(at ? (int)a[2] : AT_FDCWD, (const char *)a[at ? 3 : 1], false);
	return sr_real(d, a);
}
