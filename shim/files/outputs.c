/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outputs.c: what a replay does with what the program writes to a descriptor that is not captured:
 * it writes as many bytes as were written in the recording, to wherever the descriptor leads now.
 *
 * The program gets the recorded result, whatever becomes of this write.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/files/fds.h"
#include "shim/files/own_memory.h"
#include "shim/files/outputs.h"
#include "shim/files/private.h"
#include "shim/files/uncompared.h"

static _Atomic uint32_t recorded;
_Atomic uint32_t *sr_uncompared = &recorded;

/* One write of the program, whatever call it made. */
struct output {
	int fd;
	const struct iovec *iov;
	long offset; /* -1: at the descriptor's position */
	long flags;  /* of pwritev2 */
};

static void await_room(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	sr_syscall(SYS_poll, SR_ARG(&p), 1, -1, 0, 0, 0);
}

/* Returns 0, or -errno if the descriptor takes no more. */
static long write_piece(struct output *o, const char *p, size_t n)
{
	while (n) {
		struct iovec piece = {(void *)p, n};
		long written =
		    sr_syscall(SYS_pwritev2, o->fd, SR_ARG(&piece), 1, o->offset, 0, o->flags);

		if (written == -EAGAIN)
			await_room(o->fd);
		else if (written <= 0 && written != -EINTR)
			return written ? written : -EIO;
		if (written <= 0)
			continue;
		p += written;
		n -= (size_t)written;
		if (o->offset >= 0)
			o->offset += written;
	}
	return 0;
}

static long write_all(struct output *o, size_t left)
{
	long err = 0;

	for (const struct iovec *piece = o->iov; left && !err; piece++) {
		size_t n = piece->iov_len < left ? piece->iov_len : left;

		err = write_piece(o, piece->iov_base, n);
		left -= n;
	}
	return err;
}

/* The reader of the replay's output may stop reading. That is not the program's affair. */
static uint64_t hold_sigpipe(void)
{
	const uint64_t pipe = 1ull << (SIGPIPE - 1);
	uint64_t before;

	sr_syscall(SYS_rt_sigprocmask, SIG_BLOCK, SR_ARG(&pipe), SR_ARG(&before), sizeof(before), 0,
		   0);
	return before;
}

static void drop_sigpipe(uint64_t before, long err)
{
	const uint64_t pipe = 1ull << (SIGPIPE - 1);
	const struct timespec now = {0};

	if (err == -EPIPE)
		sr_syscall(SYS_rt_sigtimedwait, SR_ARG(&pipe), 0, SR_ARG(&now), sizeof(pipe), 0, 0);
	sr_syscall(SYS_rt_sigprocmask, SIG_SETMASK, SR_ARG(&before), 0, sizeof(before), 0, 0);
}

/* What is missing in a private file, the program could not read back. */
static void say_missing(int fd, long err)
{
	static atomic_bool said;
	bool is_private = sr_private_fd() >= 0 && !sr_is_inherited(fd);

	if (!atomic_exchange(&said, true))
		sr_say("what the program wrote to descriptor %d cannot be written now (%s)%s", fd,
		       strerrorname_np((int)-err),
		       is_private ? ": set TMPDIR to a directory with more room" : "");
	if (is_private)
		sr_engine->fail();
}

static void output(struct output *o, size_t n)
{
	uint64_t before = hold_sigpipe();
	long err = write_all(o, n);

	drop_sigpipe(before, err);
	/* Another thread has closed it since the write began: nobody sees the bytes any more. */
	if (err && err != -EPIPE && err != -EBADF)
		say_missing(o->fd, err);
}

void sr_output_again(int fd, const struct iovec *iov, size_t n, long offset, long flags)
{
	struct output o = {.fd = fd, .iov = iov, .offset = offset, .flags = flags};

	if (sr_fd_is_held(fd))
		return;
	if (sr_syscall(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0) == -ESPIPE)
		o.offset = -1;
	output(&o, n);
}

void sr_replayed_output(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	const struct iovec one = {(void *)a[1], a[2]};
	struct output o = {.fd = (int)a[0], .iov = &one, .offset = -1};

	if ((int64_t)result <= 0 || (sr_fd_is_held(o.fd) && !sr_own_memory_held(o.fd)))
		return;
	switch (sr_call_number(d)) {
	case SR_CALL_pwrite64:
		o.offset = (long)a[3];
		break;
	case SR_CALL_pwritev2:
		o.flags = (long)a[5];
		o.offset = (long)a[3];
		o.iov = (const struct iovec *)a[1];
		break;
	case SR_CALL_pwritev:
		o.offset = (long)a[3];
		o.iov = (const struct iovec *)a[1];
		break;
	case SR_CALL_writev:
	case SR_CALL_vmsplice:
		o.iov = (const struct iovec *)a[1];
		break;
	case SR_CALL_sendmsg:
		o.iov = ((const struct msghdr *)a[1])->msg_iov;
		break;
	default:
		break;
	}
	output(&o, result);
}

/* ------------------------------------------------- from descriptor to descriptor */

#define CHUNK 4096

/*
 * Moves n bytes as a call did that takes them at *from_at, or at the position of `from`, which it
 * then advances.  The results have been delivered: the addresses have the offsets after the call.
 */
static void move(int from, const int64_t *from_at, struct output *to, size_t n)
{
	int64_t at =
	    from_at ? *from_at - (int64_t)n : sr_syscall(SYS_lseek, from, 0, SEEK_CUR, 0, 0, 0);
	uint64_t before;
	char chunk[CHUNK];
	long got, err = 0;

	if (sr_fd_is_held(from) || at < 0)
		return;
	if (!from_at)
		sr_syscall(SYS_lseek, from, at + (int64_t)n, SEEK_SET, 0, 0, 0);
	if (sr_fd_is_held(to->fd))
		return;
	before = hold_sigpipe();
	for (; n && !err; n -= (size_t)got, at += got) {
		got = sr_syscall(SYS_pread64, from, SR_ARG(chunk), (long)(n < CHUNK ? n : CHUNK),
				 at, 0, 0);
		if (got <= 0)
			break;
		err = write_piece(to, chunk, (size_t)got);
	}
	drop_sigpipe(before, err);
	if (err && err != -EPIPE)
		say_missing(to->fd, err);
}

void sr_replayed_sendfile(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	struct output to = {.fd = (int)a[0], .offset = -1};

	if ((int64_t)result > 0)
		move((int)a[1], (const int64_t *)a[2], &to, result);
}

void sr_replayed_splice(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	const int64_t *to_at = (const int64_t *)a[3];
	struct output to = {.fd = (int)a[2], .offset = -1};

	if ((int64_t)result <= 0)
		return;
	if (to_at)
		to.offset = *to_at - (int64_t)result;
	move((int)a[0], (const int64_t *)a[1], &to, result);
}
