/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_fds.c: wrappers of calls that would close sreplay's own descriptors without naming
 * each of them, or that would put another file in their place. The wrappers skip these
 * descriptors. (A plain close or fcntl of one fails with EBADF: see dispatch.c.)
 *
 * A replay makes these calls as well. They affect the placeholders of captured descriptors
 * as they affected the descriptors in the recording.
 */
#include "shim/files/own_fds.h"

#include <errno.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/files/fds.h"
#include "shim/files/paths.h"
#include "shim/core/next.h"
#include "shim/exposed/exposed.h"

/* sreplay's descriptors have high numbers, which programs rarely use. */
#define OWN_FLOOR 64

/* The lowest of sreplay's descriptors that is at least fd, or -1. */
static int own_fd_from(int fd)
{
	fd = fd > 0 ? fd : 0;
	if (!sr_engine_is_active())
		return -1;
	return sr_lower_fd(sr_lower_fd(sr_engine->own_fd_from(fd), sr_exposed_fd(), fd),
			   sr_paths_own_fd(), fd);
}

bool sr_is_own_fd(int fd)
{
	return fd >= OWN_FLOOR && own_fd_from(fd) == fd;
}

static long close_piece(unsigned int first, unsigned int last, int flags)
{
	long err = sr_syscall(SYS_close_range, first, last, flags, 0, 0, 0);

	for (unsigned int fd = first; !err && !flags && fd <= last && fd < SR_MAX_FD; fd++)
		sr_fd_release((int)fd);
	return err;
}

/* The kernel's close_range for each part of the range that contains no descriptor of sreplay. */
static long close_around_ours(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first;
	long err = 0;
	int own;

	while (!err && from <= INT_MAX && (own = own_fd_from((int)from)) >= 0 &&
	       (unsigned int)own <= last) {
		if ((unsigned int)own > from)
			err = close_piece(from, (unsigned int)own - 1, flags);
		from = (unsigned int)own + 1;
	}
	return err || from > last ? err : close_piece(from, last, flags);
}

SR_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	SR_NEXT(next, "close_range");
	long err;

	if (!sr_engine)
		return ((int (*)(unsigned int, unsigned int, int))sr_next(&next))(
		    first, last, flags);
	err = first > last ? -EINVAL : close_around_ours(first, last, flags);
	if (!err)
		return 0;
	errno = (int)-err;
	return -1;
}

SR_EXPORT void closefrom(int lowest)
{
	SR_NEXT(next, "closefrom");
	unsigned int first = lowest > 0 ? (unsigned int)lowest : 0;
	uint64_t limit[2] = {1024, 1024};

	if (!sr_engine) {
		((void (*)(int))sr_next(&next))(lowest);
		return;
	}
	if (close_around_ours(first, UINT_MAX, 0) != -ENOSYS)
		return;
	sr_sys_getrlimit(RLIMIT_NOFILE, limit);
	for (unsigned int fd = first; fd < limit[0]; fd++)
		if (!sr_is_own_fd((int)fd))
			close((int)fd);
}

static int share_capture(int from, int to)
{
	if (to >= 0)
		sr_fd_share(from, to);
	return to;
}

SR_EXPORT int dup(int from)
{
	SR_NEXT(next, "dup");
	int to;

	if (sr_is_own_fd(from)) {
		errno = EBADF;
		return -1;
	}
	to = ((int (*)(int))sr_next(&next))(from);
	return sr_engine ? share_capture(from, to) : to;
}

SR_EXPORT int dup2(int from, int to)
{
	SR_NEXT(next, "dup2");

	if (sr_is_own_fd(from) || sr_is_own_fd(to)) {
		errno = EBADF;
		return -1;
	}
	to = ((int (*)(int, int))sr_next(&next))(from, to);
	return sr_engine ? share_capture(from, to) : to;
}

SR_EXPORT int dup3(int from, int to, int flags)
{
	SR_NEXT(next, "dup3");

	if (sr_is_own_fd(from) || sr_is_own_fd(to)) {
		errno = EBADF;
		return -1;
	}
	to = ((int (*)(int, int, int))sr_next(&next))(from, to, flags);
	return sr_engine ? share_capture(from, to) : to;
}
