/* SPDX-License-Identifier: BSD-2-Clause */
/* rings.c: io_uring: each step has a ring of its own; files of the thread's own, sockets, timeouts, and ways to wait. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared.h"

#define REQUESTS 8
#define SIZE	 256

/* False: this kernel has none, so that all steps are without effect. */
static bool set_up(struct self *s, struct io_uring *ring)
{
	static const unsigned int flags[] = {0, 0, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, IORING_SETUP_SQPOLL, IORING_SETUP_SUBMIT_ALL};
	struct io_uring_params p = {.flags = flags[draw(s, sizeof(flags) / sizeof(flags[0]))], .sq_thread_idle = 1};

	return !io_uring_queue_init_params(REQUESTS, ring, &p);
}

static void submit(struct self *s, struct io_uring *ring)
{
	mix(s, (uint64_t)io_uring_submit(ring));
}

/* By one of the ways to wait for it. */
static struct io_uring_cqe *next(struct self *s, struct io_uring *ring)
{
	struct pollfd p = {.fd = ring->ring_fd, .events = POLLIN};
	struct io_uring_cqe *cqe = NULL;
	unsigned int way = draw(s, 4);
	int err;

	if (way == 1)
		while (io_uring_peek_cqe(ring, &cqe))
			;
	else if (way == 2)
		mix(s, (uint64_t)poll(&p, 1, -1));
	/* A handler may interrupt it.  What the requests read is not looked at before they have ended. */
	while (!cqe && (err = io_uring_wait_cqe(ring, &cqe)))
		if (err != -EINTR)
			return NULL;
	return cqe;
}

/* user_data: what is added, whichever of several ends first.  Returns the sum of the results. */
static int take(struct self *s, struct io_uring *ring, unsigned int n)
{
	int sum = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct io_uring_cqe *cqe = next(s, ring);

		if (!cqe)
			return sum;
		mix(s, cqe->user_data * 1000003 + (uint64_t)cqe->res);
		sum += cqe->res;
		io_uring_cqe_seen(ring, cqe);
	}
	return sum;
}

/* Writes and reads at places of their own, some of them in a chain. */
static void ring_files(struct self *s)
{
	unsigned char bytes[REQUESTS][SIZE];
	struct io_uring ring;
	unsigned int n = 1 + draw(s, REQUESTS);
	char name[32];
	int fd;

	if (!set_up(s, &ring))
		return;
	snprintf(name, sizeof(name), "ring-%d", s->number);
	fd = open(name, O_RDWR | O_CREAT, 0600);
	for (unsigned int i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		unsigned int at = SIZE * i + draw(s, SIZE / 2), length = 1 + draw(s, SIZE / 2);

		memset(bytes[i], 'a' + (int)decide(s, 26), SIZE);
		if (draw(s, 2))
			io_uring_prep_write(sqe, fd, bytes[i], length, at);
		else
			io_uring_prep_read(sqe, fd, bytes[i], length, at);
		if (i + 1 < n && !draw(s, 3))
			sqe->flags |= IOSQE_IO_LINK;
		if (!draw(s, 6))
			sqe->flags |= IOSQE_ASYNC;
		sqe->user_data = i + 1;
	}
	submit(s, &ring);
	take(s, &ring, n);
	for (unsigned int i = 0; i < n; i++)
		mix_bytes(s, bytes[i], SIZE);
	io_uring_queue_exit(&ring);
	close(fd);
}

/* A file is made, written, looked at and removed; each request waits for the one before, or not. */
static void ring_names(struct self *s)
{
	struct io_uring ring;
	struct statx st = {0};
	char name[32], text[] = "some text of a file";
	int fd;

	if (!set_up(s, &ring))
		return;
	snprintf(name, sizeof(name), "named-%d-%u", s->number, draw(s, 3));
	io_uring_prep_openat(io_uring_get_sqe(&ring), AT_FDCWD, name, O_RDWR | (draw(s, 3) ? O_CREAT : 0), 0600);
	submit(s, &ring);
	fd = take(s, &ring, 1);
	io_uring_prep_write(io_uring_get_sqe(&ring), fd, text, 1 + decide(s, 15), draw(s, 40));
	io_uring_sqe_set_flags(&ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask], IOSQE_IO_LINK);
	io_uring_prep_close(io_uring_get_sqe(&ring), fd < 0 ? 999 : fd);
	submit(s, &ring);
	take(s, &ring, 2);
	io_uring_prep_statx(io_uring_get_sqe(&ring), AT_FDCWD, name, 0, STATX_SIZE, &st);
	submit(s, &ring);
	take(s, &ring, 1);
	mix(s, st.stx_size);
	if (!draw(s, 3)) {
		io_uring_prep_unlinkat(io_uring_get_sqe(&ring), AT_FDCWD, name, 0);
		submit(s, &ring);
		take(s, &ring, 1);
	}
	io_uring_queue_exit(&ring);
}

/* Receives into buffers that the kernel chooses, or into one of its own. */
static void ring_sockets(struct self *s)
{
	static __thread unsigned char buffers[4][SIZE];
	unsigned char bytes[SIZE];
	struct io_uring ring;
	unsigned int n = 1 + draw(s, 6), chooses = draw(s, 2);
	int pair[2];

	if (!set_up(s, &ring))
		return;
	socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
	io_uring_prep_provide_buffers(io_uring_get_sqe(&ring), buffers, SIZE, 4, 1, 0);
	submit(s, &ring);
	take(s, &ring, 1);
	for (unsigned int i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		struct io_uring_cqe *cqe;

		io_uring_prep_recv(sqe, pair[1], chooses ? NULL : buffers[0], SIZE, 0);
		sqe->user_data = 1;
		if (chooses) {
			sqe->flags |= IOSQE_BUFFER_SELECT;
			sqe->buf_group = 1;
		}
		memset(bytes, (int)decide(s, 256), SIZE);
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_send(sqe, pair[0], bytes, 1 + decide(s, SIZE - 1), 0);
		sqe->user_data = 2;
		if (!draw(s, 2))
			sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
		bool is_silent = sqe->flags & IOSQE_CQE_SKIP_SUCCESS;
		submit(s, &ring);
		for (int k = is_silent ? 1 : 0; k < 2; k++) {
			cqe = next(s, &ring);
			if (!cqe)
				break;
			mix(s, (uint64_t)cqe->res + cqe->flags);
			if (cqe->user_data == 1 && cqe->res > 0)
				mix_bytes(s, buffers[chooses ? cqe->flags >> IORING_CQE_BUFFER_SHIFT : 0], (size_t)cqe->res);
			io_uring_cqe_seen(&ring, cqe);
		}
	}
	io_uring_queue_exit(&ring);
	close(pair[0]);
	close(pair[1]);
}

/* Timeouts, a poll of a pipe, and what is cancelled. */
static void ring_waits(struct self *s)
{
	struct __kernel_timespec soon = {.tv_nsec = 100000 + draw(s, 2000000)}, never = {.tv_sec = 1000};
	struct io_uring ring;
	int ends[2];

	if (!set_up(s, &ring))
		return;
	pipe(ends);
	io_uring_prep_timeout(io_uring_get_sqe(&ring), &soon, 0, 0);
	io_uring_prep_poll_add(io_uring_get_sqe(&ring), ends[0], POLLIN);
	submit(s, &ring);
	if (draw(s, 2))
		mix(s, (uint64_t)write(ends[1], "x", 1));
	take(s, &ring, 1);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	io_uring_prep_timeout(sqe, &never, 0, 0);
	sqe->user_data = 7;
	submit(s, &ring);
	io_uring_prep_timeout_remove(io_uring_get_sqe(&ring), 7, 0);
	submit(s, &ring);
	take(s, &ring, 2);
	io_uring_queue_exit(&ring);
	close(ends[0]);
	close(ends[1]);
}

const struct step ring_steps[] = {
    {"ring_files", ring_files, 3}, {"ring_names", ring_names, 2}, {"ring_sockets", ring_sockets, 3}, {"ring_waits", ring_waits, 2}, {0},
};
