/* SPDX-License-Identifier: BSD-2-Clause */
/* environment.c: hooks of the libc calls that make and end file descriptors. */
#include <errno.h>
#include <fcntl.h>

#include "shim/fds.h"
#include "shim/hooks.h"
#include "shim/thread.h"

uint64_t sr_invoke_close(const struct sr_call_desc *d, uint64_t *a)
{
	/* Before the real call: right after it another thread may be given the same number. */
	bool was_captured = sr_fd_captured((int)a[0]);
	int result, error;

	sr_fd_release((int)a[0]);
	result = (int)sr_real(d, a);
	error = errno;
	/* Linux frees the number even where close fails, except if it was none. */
	if (result < 0 && was_captured && fcntl((int)a[0], F_GETFD) >= 0)
		sr_fd_capture((int)a[0]);
	errno = error;
	return (uint64_t)(int64_t)result;
}

void sr_replayed_close(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result == 0)
		sr_fd_drop((int)a[0]);
}

/* domain, type, protocol, fds: nested only (calls.def). */
uint64_t sr_invoke_socketpair(const struct sr_call_desc *d, uint64_t *a)
{
	const int *fds = (const int *)a[3];
	int result = (int)sr_real(d, a);

	if (result == 0 && sr_self.inside_rdmacm) {
		sr_fd_capture(fds[0]);
		sr_fd_capture(fds[1]);
	}
	return (uint64_t)(int64_t)result;
}

bool sr_never(const uint64_t *a)
{
	return false;
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

static bool duplicates(int cmd)
{
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC;
}

uint64_t sr_invoke_fcntl(const struct sr_call_desc *d, uint64_t *a)
{
	int result = (int)sr_real(d, a);

	if (result >= 0 && duplicates((int)a[1]) && sr_fd_captured((int)a[0]))
		sr_fd_capture(result);
	return (uint64_t)(int64_t)result;
}

void sr_replayed_fcntl(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if ((int)result >= 0 && duplicates((int)a[1]))
		sr_fd_hold((int)result);
}

bool sr_poll_captured(const uint64_t *a)
{
	const struct pollfd *fds = (const void *)a[0];

	for (uint64_t i = 0; i < a[1]; i++)
		if (sr_fd_captured(fds[i].fd))
			return true;
	return false;
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
