/* SPDX-License-Identifier: BSD-2-Clause */
/* fd_calls.c: hooks of the calls that make, close and change file descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fiemap.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/files/changes.h"
#include "shim/files/fds.h"
#include "shim/files/own_fds.h"
#include "shim/files/private.h"
#include "shim/files/small_inputs.h"

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

/* ------------------------------------------------------------ ioctl, fcntl */

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

bool sr_fcntl_takes_number(int cmd)
{
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
	case F_SETFD:
	case F_SETFL:
	case F_ADD_SEALS:
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

/*
 * A replay must not lock files of the host, nor wait for others that have; nor are there the processes that signals go to, or
 * the children whose mappings forbid a seal.
 */
static bool is_about_others(int cmd)
{
	switch (cmd) {
	case F_ADD_SEALS:
	case F_GET_SEALS:
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

void sr_replayed_fcntl(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	/* Of the program's own files, O_APPEND says where it writes; and a seal says how its memory may be mapped. */
	if (!(int)result && (a[1] == F_SETFL || a[1] == F_ADD_SEALS) && !sr_fd_is_held((int)a[0]) && !sr_is_inherited((int)a[0]))
		sr_syscall(SYS_fcntl, (long)a[0], (long)a[1], (long)a[2], 0, 0, 0);
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

bool sr_splice_captured(const uint64_t *a)
{
	return sr_fd_captured((int)a[0]) || sr_fd_captured((int)a[2]) ||
	       sr_fd_is_ordinary((int)a[2]);
}
