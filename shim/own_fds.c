/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_fds.c: calls that would close the recorder's own descriptors without
 * naming them one by one, or put another file in their place.  They leave those
 * out.  (A plain close or fcntl of one fails with EBADF: see dispatch.c.)
 *
 * These calls are made in a replay as well: what they do to the numbers, they
 * do to the placeholders of captured descriptors too.
 */
#include <errno.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "logd/rawsys.h"
#include "shim/call.h"
#include "shim/fds.h"
#include "shim/real.h"
#include "shim/record.h"

#define EXPORT __attribute__((visibility("default")))

/* Numbers that can be open; closing up to UINT_MAX means: all. */
static unsigned int last_possible(unsigned int last)
{
	uint64_t limit[2] = {1024, 1024};

	sr_sys_getrlimit(RLIMIT_NOFILE, limit);
	return last < limit[0] ? last : (unsigned int)limit[0];
}

static long close_piece(unsigned int first, unsigned int last, int flags)
{
	long err = sr_syscall(SYS_close_range, first, last, flags, 0, 0, 0);

	for (unsigned int fd = first; !err && !flags && fd <= last && fd < SR_MAX_FD; fd++)
		sr_fd_release((int)fd);
	return err;
}

/* The kernel's close_range, piece by piece around what is ours. */
static long close_around_ours(unsigned int first, unsigned int last, int flags)
{
	unsigned int end = last_possible(last), from = first;
	long err = 0;

	for (unsigned int fd = first; fd <= end && !err; fd++) {
		if (!sr_record_owns_fd((int)fd))
			continue;
		if (fd > from)
			err = close_piece(from, fd - 1, flags);
		from = fd + 1;
	}
	return err || from > last ? err : close_piece(from, last, flags);
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
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

EXPORT void closefrom(int lowest)
{
	SR_NEXT(next, "closefrom");
	unsigned int first = lowest > 0 ? (unsigned int)lowest : 0;

	if (!sr_engine) {
		((void (*)(int))sr_next(&next))(lowest);
		return;
	}
	if (close_around_ours(first, UINT_MAX, 0) != -ENOSYS)
		return;
	for (unsigned int fd = first; fd <= last_possible(UINT_MAX); fd++)
		if (!sr_record_owns_fd((int)fd))
			close((int)fd);
}

/* The duplicate of a captured descriptor is one, too. */
static int share_capture(int from, int to)
{
	if (to < 0)
		return to;
	if (sr_fd_captured(from))
		sr_fd_capture(to);
	else
		sr_fd_release(to);
	return to;
}

EXPORT int dup(int from)
{
	SR_NEXT(next, "dup");
	int to;

	if (sr_record_owns_fd(from)) {
		errno = EBADF;
		return -1;
	}
	to = ((int (*)(int))sr_next(&next))(from);
	return sr_engine ? share_capture(from, to) : to;
}

EXPORT int dup2(int from, int to)
{
	SR_NEXT(next, "dup2");

	if (sr_record_owns_fd(from) || sr_record_owns_fd(to)) {
		errno = EBADF;
		return -1;
	}
	to = ((int (*)(int, int))sr_next(&next))(from, to);
	return sr_engine ? share_capture(from, to) : to;
}

EXPORT int dup3(int from, int to, int flags)
{
	SR_NEXT(next, "dup3");

	if (sr_record_owns_fd(from) || sr_record_owns_fd(to)) {
		errno = EBADF;
		return -1;
	}
	to = ((int (*)(int, int, int))sr_next(&next))(from, to, flags);
	return sr_engine ? share_capture(from, to) : to;
}
