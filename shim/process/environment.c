/* SPDX-License-Identifier: BSD-2-Clause */
/* environment.c: hooks of the calls that open and close file descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "shim/kernel/guarded.h"
#include "shim/files/fds.h"
#include "shim/files/changes.h"
#include "shim/files/inputs.h"
#include "shim/files/paths.h"
#include "shim/files/private.h"
#include "shim/files/small_inputs.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/files/own_fds.h"
#include "shim/files/own_memory.h"
#include "shim/process/ids.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"

uint64_t sr_invoke_close(const struct sr_call_desc *d, uint64_t *a)
{
	/*
	 * Release before the real call: as soon as that returns, another thread may get the
	 * same number.
	 */
	bool was_captured = sr_fd_captured((int)a[0]);
	int result, error;

	if ((int)a[0] == sr_self.late_fd - 1)
		sr_small_input_end(&sr_self);
	sr_fd_release((int)a[0]);
	result = (int)sr_real(d, a);
	error = errno;
	/*
	 * Linux frees the number even if close fails, unless it was not open. Check what happened.
	 */
	if (result < 0 && was_captured && fcntl((int)a[0], F_GETFD) >= 0)
		sr_fd_capture((int)a[0]);
	errno = error;
	return (uint64_t)(int64_t)result;
}

void sr_replayed_close(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result)
		return;
	sr_fd_release((int)a[0]);
	sr_sys_close((int)a[0]);
}

/* A replay closes descriptors that are not captured, too; of these only the order is recorded. */
bool sr_close_captured(const uint64_t *a)
{
	return sr_fd_captured((int)a[0]) || (sr_trapped(a) && sr_fd_is_ordinary((int)a[0]));
}

/* ------------------------------------------------------- pairs, duplicates */

/* The kernel's mask is shorter than sigset_t. */
static uint64_t filter_mask(uint64_t mask, sigset_t *given, sigset_t *copy)
{
	if (!mask)
		return 0;
	sigemptyset(given);
	memcpy(given, (const void *)mask, sizeof(mask));
	return (uintptr_t)sr_signals_filter(given, copy);
}

static const int *pair_of(const struct sr_call_desc *d, const uint64_t *a)
{
	return (const int *)a[sr_call_number(d) == SR_CALL_socketpair ? 3 : 0];
}

uint64_t sr_invoke_pair(const struct sr_call_desc *d, uint64_t *a)
{
	const int *fds = pair_of(d, a);
	int result = (int)sr_real(d, a);
	/* A pair from a nested call is captured only if librdmacm made the call. */
	if (result == 0 && (sr_self.depth == 1 || sr_self.inside_rdmacm)) {
		sr_fd_capture(fds[0]);
		sr_fd_capture(fds[1]);
	}
	return (uint64_t)(int64_t)result;
}

void sr_replayed_pair(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	const int *fds = pair_of(d, a);

	if ((int)result)
		return;
	sr_fd_hold(fds[0]);
	sr_fd_hold(fds[1]);
	/* A child may write into the pipe. Send that to /dev/null, where it does no harm. */
	if (sr_call_number(d) == SR_CALL_pipe2)
		sr_fd_renumber(
		    (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/dev/null"), O_WRONLY, 0, 0, 0),
		    fds[1]);
}

uint64_t sr_invoke_dup(const struct sr_call_desc *d, uint64_t *a)
{
	int result;

	if (d->nargs > 1 && sr_is_own_fd((int)a[1])) {
		errno = EBADF;
		return (uint64_t)-1;
	}
	result = (int)sr_real(d, a);
	if (result >= 0)
		sr_fd_share((int)a[0], result);
	return (uint64_t)(int64_t)result;
}

/* Duplicates the placeholder of a captured descriptor. */
void sr_replayed_dup(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	int from = (int)a[0], to = (int)result;

	if (to < 0 || from == to || sr_is_own_fd(to))
		return;
	sr_syscall(SYS_dup3, from, to, d->nargs > 2 ? (long)a[2] : 0, 0, 0, 0);
	sr_fd_share(from, to);
	sr_changes_duplicated(from, to);
}

/* ------------------------------------------------------------------- files */

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

uint64_t sr_invoke_openat(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_opened_file *file = &sr_self.opened;
	int fd, error;
	bool is_file;

	sr_small_input_end(&sr_self);
	if (a[2] & O_TRUNC)
		sr_files_ends((int)a[0], (const char *)a[1], true);
	fd = open_really(d, a);
	error = errno;
	if (fd < 0)
		return (uint64_t)-1;
	is_file = sr_files_opened_at(fd, (int)a[2], file);
	file->class = classify(fd, (int)a[2], (const char *)a[1], is_file);
	if (file->class == SR_FD_OUTSIDE || file->class == SR_FD_MEMORY)
		sr_fd_capture(fd);
	else
		sr_fd_release(fd);
	errno = error;
	return (uint64_t)(int64_t)fd;
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
	sr_fd_release((int)result);
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

/*
 * Requests may change terminals and files of the host, and a replay may run on another terminal.  Only
 * where the pieces of a file are cannot be recorded, as the answer has no fixed size.
 */
bool sr_ioctl_captured(const uint64_t *a)
{
	return sr_fd_captured((int)a[0]) || a[1] != FS_IOC_FIEMAP;
}

/* These requests return a new descriptor: the peer of a pseudo-terminal, or a namespace. */
static bool ioctl_opens(uint64_t request)
{
	switch (request) {
	case TIOCGPTPEER:
	case NS_GET_USERNS:
	case NS_GET_PARENT:
		return true;
	}
	return false;
}

uint64_t sr_invoke_ioctl(const struct sr_call_desc *d, uint64_t *a)
{
	int result = (int)sr_real(d, a);

	if (result >= 0 && ioctl_opens(a[1]))
		sr_fd_capture(result);
	return (uint64_t)(int64_t)result;
}

void sr_replayed_ioctl(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result >= 0 && ioctl_opens(a[1]))
		sr_fd_hold((int)result);
}

/* ------------------------------------------------------------ masks of signals */

/*
 * A call that sets a signal mask for its duration. Signals that the shim claims are never blocked
 * (signals.h). The mask is the argument before its size; pselect6 and io_pgetevents have both in memory.
 */
uint64_t sr_invoke_masked(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t words[6], pair[2];
	bool packed = d->nr == SYS_pselect6 || d->nr == SYS_io_pgetevents;
	int at = packed ? 5 : d->nargs - 2;
	sigset_t given, copy;

	memcpy(words, a, d->nargs * sizeof(words[0]));
	if (!words[at])
		return sr_real(d, a);
	if (packed) {
		memcpy(pair, (const void *)words[at], sizeof(pair));
		pair[0] = filter_mask(pair[0], &given, &copy);
		words[at] = (uintptr_t)pair;
	} else {
		words[at] = filter_mask(words[at], &given, &copy);
	}
	return sr_real(d, words);
}

bool sr_fcntl_takes_number(int cmd)
{
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
	case F_SETFD:
	case F_SETFL:
		return true;
	default:
		return false;
	}
}

#define GET_OWNER_UIDS 17 /* <fcntl.h> has no name for it */

size_t sr_fcntl_answer(int cmd)
{
	switch (cmd) {
	case F_GETLK:
	case F_OFD_GETLK:
		return sizeof(struct flock);
	case F_GETOWN_EX:
		return sizeof(struct f_owner_ex);
	case GET_OWNER_UIDS:
		return 2 * sizeof(uid_t);
	default:
		return 0;
	}
}

/* A replay must not lock files of the host, nor wait for others that have; nor are there the processes that signals go to. */
static bool is_about_others(int cmd)
{
	switch (cmd) {
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
	case F_SETLEASE:
	case F_GETLEASE:
	case F_NOTIFY:
	case F_SETOWN:
	case F_GETOWN:
	case F_SETOWN_EX:
	case F_SETSIG:
	case F_GETSIG:
		return true;
	default:
		return sr_fcntl_answer(cmd);
	}
}

static bool duplicates(int cmd)
{
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC;
}

uint64_t sr_invoke_fcntl(const struct sr_call_desc *d, uint64_t *a)
{
	int result = (int)sr_real(d, a);

	if (result >= 0 && duplicates((int)a[1]))
		sr_fd_share((int)a[0], result);
	return (uint64_t)(int64_t)result;
}

/*
 * Afterwards the program may ask that processor by cpuid.  On a machine without it, it stays where it
 * is.
 */
void sr_replayed_sched_setaffinity(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	int32_t id = (int32_t)a[0], real = sr_real_id(id);

	if (!(int)result && (!id || real != id))
		sr_syscall(SYS_sched_setaffinity, real, (long)a[1], (long)a[2], 0, 0, 0);
}

void sr_replayed_fcntl(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	/* Of the program's own files, O_APPEND says where it writes. */
	if (!(int)result && a[1] == F_SETFL && !sr_fd_captured((int)a[0]) && !sr_is_inherited((int)a[0]))
		sr_syscall(SYS_fcntl, (long)a[0], F_SETFL, (long)a[2], 0, 0, 0);
	if ((int)result < 0 || !duplicates((int)a[1]))
		return;
	sr_syscall(SYS_dup3, (long)a[0], (long)(int)result, a[1] == F_DUPFD_CLOEXEC ? O_CLOEXEC : 0,
		   0, 0, 0);
	sr_fd_share((int)a[0], (int)result);
	sr_changes_duplicated((int)a[0], (int)result);
}

/*
 * A replay may have other files as standard input, output and error, so their flags are recorded, and
 * those of all descriptors, as each may be a copy: perror writes to one, if it can be read as well.
 */
static bool is_about_flags(int fd, int cmd)
{
	return sr_fd_is_ordinary(fd) && (cmd == F_GETFL || cmd == F_SETFL);
}

/*
 * A duplicate is recorded for its new number, whether or not the descriptor is captured.
 * Flags of an output are recorded because a replay must not set O_NONBLOCK on another file,
 * where the program might then wait although it did not wait in the recording.
 */
bool sr_fcntl_captured(const uint64_t *a)
{
	int fd = (int)a[0], cmd = (int)a[1];

	return sr_fd_captured(fd) ||
	       ((duplicates(cmd) || is_about_flags(fd, cmd) || is_about_others(cmd)) &&
		sr_trapped(a));
}

/* A call without descriptors only waits for time; it is captured, too. */
static bool selects_captured(const uint64_t *a)
{
	if ((int)a[0] <= 0)
		return true;
	for (int fd = 0; fd < (int)a[0]; fd++)
		for (int set = 1; set <= 3; set++)
			if (a[set] && FD_ISSET(fd, (const fd_set *)a[set]) && sr_fd_captured(fd))
				return true;
	return false;
}

static bool polls_captured(const uint64_t *a)
{
	const struct pollfd *fds = (const void *)a[0];

	for (uint64_t i = 0; i < a[1]; i++)
		if (sr_fd_captured(fds[i].fd))
			return true;
	return !a[1];
}

struct question {
	bool (*is_captured)(const uint64_t *a);
	const uint64_t *a;
	bool answer;
};

static void answer(void *argument)
{
	struct question *q = argument;

	q->answer = q->is_captured(q->a);
}

/* A call that the kernel refuses is recorded: its descriptors cannot be seen. */
static bool ask(struct question q)
{
	return !sr_guarded(answer, &q) || q.answer;
}

bool sr_select_captured(const uint64_t *a)
{
	return ask((struct question){selects_captured, a, false});
}

bool sr_poll_captured(const uint64_t *a)
{
	return ask((struct question){polls_captured, a, false});
}

bool sr_splice_captured(const uint64_t *a)
{
	return sr_fd_captured((int)a[0]) || sr_fd_captured((int)a[2]) ||
	       sr_fd_is_ordinary((int)a[2]);
}

/* ---------------------------------------------------- completion channels */

uint64_t sr_invoke_create_channel(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_comp_channel *channel = (void *)sr_real(d, a);

	if (channel)
		sr_fd_capture(channel->fd);
	return (uintptr_t)channel;
}

void sr_replayed_create_channel(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (result)
		sr_fd_hold(((struct ibv_comp_channel *)result)->fd);
}

uint64_t sr_invoke_destroy_channel(const struct sr_call_desc *d, uint64_t *a)
{
	int fd = ((struct ibv_comp_channel *)a[0])->fd;
	uint64_t result = sr_real(d, a);

	if ((int)result == 0)
		sr_fd_release(fd);
	return result;
}

void sr_replayed_destroy_channel(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result == 0)
		sr_fd_drop(((struct ibv_comp_channel *)a[0])->fd);
}
