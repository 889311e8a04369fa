/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring.c: requests that the kernel ends while the program goes on, as liburing makes them.
 *
 *	uring CASE OUTPUT     works on the file OUTPUT.data, prints into OUTPUT; without arguments: names the cases
 *
 * The case `copies` writes what is in OUTPUT.in.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "uring_requests.h"

#define BLOCKS 64

/* ---------------------------------------------------------------------- files */

static void blocks(void)
{
	static unsigned char bytes[BLOCKS][BLOCK], again[BLOCKS][BLOCK];
	struct io_uring ring = set_up(16, 0);
	struct iovec list[2] = {{again[0], 100}, {again[1], 3000}};

	for (int i = 0; i < BLOCKS; i++) {
		fill(bytes[i], BLOCK);
		REQUEST(&ring, i, write, file, bytes[i], BLOCK, (uint64_t)i * BLOCK);
		if (i % 16 == 15) {
			fprintf(out, "submitted %d\n", io_uring_submit_and_wait(&ring, 8));
			for (int k = 0; k < 16; k++)
				take(&ring);
		}
	}
	for (int i = 0; i < BLOCKS; i++) {
		REQUEST(&ring, i, read, file, again[i], BLOCK, (uint64_t)i * BLOCK);
		io_uring_submit(&ring);
		take(&ring);
	}
	print_sum("all", again, sizeof(again));
	REQUEST(&ring, 1, readv, file, list, 2, 5000);
	REQUEST(&ring, 2, read, file, again[2], BLOCK, (uint64_t)BLOCKS * BLOCK - 10);
	REQUEST(&ring, 3, read, -1, again[2], BLOCK, 0);
	io_uring_submit(&ring);
	for (int k = 0; k < 3; k++)
		take(&ring);
	print_sum("pieces", again, 2 * BLOCK);
	io_uring_queue_exit(&ring);
}

static void registered(void)
{
	static unsigned char bytes[BLOCK], again[BLOCK];
	struct io_uring ring = set_up(4, 0);
	const struct iovec buffers[] = {{bytes, BLOCK}, {again, BLOCK}};
	int files[] = {file, -1}, other = in;

	fprintf(out, "registered: %d %d\n", io_uring_register_buffers(&ring, buffers, 2), io_uring_register_files(&ring, files, 2));
	fill(bytes, BLOCK);
	struct io_uring_sqe *sqe = next(&ring, 0);
	io_uring_prep_write_fixed(sqe, 0, bytes, BLOCK, 0, 0);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK;
	sqe->user_data = 1;
	sqe = next(&ring, 0);
	io_uring_prep_read_fixed(sqe, 0, again, BLOCK, 0, 1);
	sqe->flags |= IOSQE_FIXED_FILE;
	sqe->user_data = 2;
	fprintf(out, "submitted %d\n", io_uring_submit_and_wait(&ring, 2));
	take(&ring);
	take(&ring);
	print_sum("again", again, BLOCK);
	fprintf(out, "updated: %d\n", io_uring_register_files_update(&ring, 1, &other, 1));
	sqe = next(&ring, 0);
	io_uring_prep_read(sqe, 1, again, 11, 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_submit(&ring);
	take(&ring);
	fprintf(out, "text: %.11s\n", again);
	io_uring_queue_exit(&ring);
}

/* Opens, names, looks at and removes files; a chain writes one, and closes it. */
static void names(void)
{
	struct io_uring ring = set_up(8, 0);
	static char text[] = "written, then closed\n", again[64], path[300], other[300];
	struct statx st;
	int fd;

	snprintf(path, sizeof(path), "%s.1", data_path);
	snprintf(other, sizeof(other), "%s.2", data_path);
	REQUEST(&ring, 1, openat, AT_FDCWD, path, O_CREAT | O_RDWR | O_TRUNC, 0600);
	io_uring_submit(&ring);
	fd = take(&ring).result;
	REQUEST(&ring, 2, write, fd, text, sizeof(text) - 1, 0);
	link_last(&ring);
	REQUEST(&ring, 3, fsync, fd, 0);
	link_last(&ring);
	REQUEST(&ring, 4, close, fd);
	fprintf(out, "submitted %d\n", io_uring_submit_and_wait(&ring, 3));
	for (int k = 0; k < 3; k++)
		take(&ring);
	REQUEST(&ring, 5, renameat, AT_FDCWD, path, AT_FDCWD, other, 0);
	link_last(&ring);
	REQUEST(&ring, 6, statx, AT_FDCWD, other, 0, STATX_SIZE, &st);
	link_last(&ring);
	REQUEST(&ring, 7, openat, AT_FDCWD, other, O_RDONLY, 0);
	io_uring_submit(&ring);
	take(&ring);
	take(&ring);
	fd = take(&ring).result;
	fprintf(out, "size %ld, next descriptor %d\n", (long)st.stx_size, fd);
	/* At the descriptor's position. */
	REQUEST(&ring, 8, read, fd, again, 8, (uint64_t)-1);
	io_uring_submit(&ring);
	take(&ring);
	fprintf(out, "then %zd:", read(fd, again + 8, 40));
	fprintf(out, " %s", again);
	REQUEST(&ring, 20, openat, AT_FDCWD, "/no/such/file", O_RDONLY, 0);
	link_last(&ring);
	REQUEST(&ring, 21, nop);
	io_uring_submit(&ring);
	take(&ring);
	take(&ring);
	/* What is linked with a failure is not made, also behind another request. */
	REQUEST(&ring, 22, openat, AT_FDCWD, "/no/such/file", O_RDONLY, 0);
	link_last(&ring);
	REQUEST(&ring, 23, nop);
	link_last(&ring);
	REQUEST(&ring, 24, mkdirat, AT_FDCWD, path, 0700);
	io_uring_submit(&ring);
	for (int k = 0; k < 3; k++)
		take(&ring);
	fprintf(out, "made: %d\n", access(path, F_OK));
	REQUEST(&ring, 9, unlinkat, AT_FDCWD, other, 0);
	io_uring_submit(&ring);
	take(&ring);
	fprintf(out, "there: %d\n", access(other, F_OK));
	close(fd);
	io_uring_queue_exit(&ring);
}

static void copies(void)
{
	static char bytes[16384];
	struct io_uring ring = set_up(4, 0);
	int n;

	REQUEST(&ring, 1, read, in, bytes, sizeof(bytes), 0);
	io_uring_submit(&ring);
	n = take(&ring).result;
	/* The replay reads it again, and finds what it submits to be another content. */
	n = (int)pread(in, bytes, (size_t)n, 0);
	REQUEST(&ring, 2, write, file, bytes, (unsigned int)n, 0);
	io_uring_submit(&ring);
	take(&ring);
	io_uring_queue_exit(&ring);
}

/* -------------------------------------------------------------------- sockets */

static void sockets(void)
{
	struct io_uring ring = set_up(16, 0);
	struct sockaddr_storage from = {0};
	socklen_t length = sizeof(from);
	struct sockaddr_un { sa_family_t family; char path[20]; } name = {AF_UNIX, ""};
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0), server;
	char sent[64], got[64] = "", more[64] = "";
	struct iovec to[2] = {{got, 5}, {more, sizeof(more)}};
	struct msghdr message = {.msg_iov = to, .msg_iovlen = 2, .msg_flags = 77};
	struct __kernel_timespec soon = {.tv_nsec = 2000000};

	bind(listener, (struct sockaddr *)&name, sizeof(name.family)); /* the kernel gives it a name */
	listen(listener, 1);
	socklen_t named = sizeof(name);
	getsockname(listener, (struct sockaddr *)&name, &named);
	REQUEST(&ring, 1, accept, listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC);
	REQUEST(&ring, 2, connect, client, (struct sockaddr *)&name, named);
	io_uring_submit_and_wait(&ring, 2);
	struct ended a = take(&ring), b = take(&ring);
	server = a.name == 1 ? a.result : b.result;
	fprintf(out, "accepted %d, address %u bytes\n", server, length);
	REQUEST(&ring, 3, recv, server, got, sizeof(got), 0);
	REQUEST(&ring, 4, poll_add, client, POLLIN);
	io_uring_submit(&ring);
	snprintf(sent, sizeof(sent), "%d says hello", (int)getpid());
	send(client, sent, strlen(sent), 0);
	take(&ring);
	fprintf(out, "got %s\n", got);
	REQUEST(&ring, 5, send, server, "an answer", 9, 0);
	io_uring_submit(&ring);
	take(&ring);
	take(&ring);
	REQUEST(&ring, 6, recvmsg, client, &message, 0);
	io_uring_submit(&ring);
	take(&ring);
	fprintf(out, "message %.5s|%s, flags %#x\n", got, more, message.msg_flags);
	REQUEST(&ring, 7, recv, server, got, sizeof(got), 0);
	link_last(&ring);
	REQUEST(&ring, 8, link_timeout, &soon, 0);
	io_uring_submit(&ring);
	take(&ring);
	take(&ring);
	REQUEST(&ring, 9, recv, server, got, sizeof(got), 0);
	io_uring_submit(&ring);
	REQUEST(&ring, 10, cancel64, 9, 0);
	io_uring_submit(&ring);
	take(&ring);
	take(&ring);
	REQUEST(&ring, 11, close, server);
	io_uring_submit(&ring);
	take(&ring);
	fprintf(out, "closed: %d, next %d\n", fcntl(server, F_GETFD), dup(client));
	io_uring_queue_exit(&ring);
}

/* ------------------------------------------------- how completions are noticed */

static void timeouts(void)
{
	struct io_uring ring = set_up(4, 0);
	struct __kernel_timespec ts = {.tv_nsec = 3000000}, never = {.tv_sec = 1000};
	struct io_uring_cqe *cqe;

	REQUEST(&ring, 1, timeout, &ts, 0, 0);
	REQUEST(&ring, 2, timeout, &never, 0, 0);
	io_uring_submit(&ring);
	fprintf(out, "peek: %d\n", io_uring_peek_cqe(&ring, &cqe));
	take(&ring);
	fprintf(out, "wait: %d\n", io_uring_wait_cqe_timeout(&ring, &cqe, &ts));
	REQUEST(&ring, 3, timeout_remove, 2, 0);
	io_uring_submit(&ring);
	take(&ring);
	take(&ring);
	REQUEST(&ring, 4, timeout, &ts, 0, 0);
	io_uring_submit(&ring);
	while (io_uring_peek_cqe(&ring, &cqe))
		;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
}

/* Programs with a loop of their own: the ring's descriptor or an eventfd says that there is something, and they look. */
static void by_descriptor(void)
{
	struct io_uring ring = set_up(4, 0);
	struct __kernel_timespec ts = {.tv_nsec = 2000000};
	int loop = epoll_create1(0), event = eventfd(0, EFD_CLOEXEC);
	struct epoll_event of_ring = {.events = EPOLLIN, .data.fd = ring.ring_fd}, got;
	uint64_t count;

	epoll_ctl(loop, EPOLL_CTL_ADD, ring.ring_fd, &of_ring);
	for (int i = 0; i < 3; i++) {
		REQUEST(&ring, i, timeout, &ts, 0, 0);
		io_uring_submit(&ring);
		fprintf(out, "epoll: %d", epoll_wait(loop, &got, 1, -1));
		fprintf(out, ", ready %u\n", io_uring_cq_ready(&ring));
		io_uring_cq_advance(&ring, io_uring_cq_ready(&ring));
	}
	fprintf(out, "none: %d\n", epoll_wait(loop, &got, 1, 0));
	io_uring_register_eventfd(&ring, event);
	for (int i = 0; i < 3; i++) {
		REQUEST(&ring, i, timeout, &ts, 0, 0);
		io_uring_submit(&ring);
		fprintf(out, "read: %zd", read(event, &count, sizeof(count)));
		fprintf(out, ", ready %u\n", io_uring_cq_ready(&ring));
		io_uring_cq_advance(&ring, io_uring_cq_ready(&ring));
	}
	io_uring_queue_exit(&ring);
}

/* Nothing but the ring's memory says so; all signals are blocked, too. */
static void spins(void)
{
	struct io_uring ring = set_up(4, 0);
	struct __kernel_timespec ts = {.tv_nsec = 2000000};
	struct io_uring_cqe *cqe;
	unsigned int head, seen = 0;
	char bytes[64];
	int pipes[2], old = 0;
	sigset_t all;

	if (pipe(pipes))
		return;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (int i = 0; i < 5; i++) {
		REQUEST(&ring, 1, read, pipes[0], bytes, sizeof(bytes), 0);
		REQUEST(&ring, 2, timeout, &ts, 0, 0);
		io_uring_submit(&ring);
		for (seen = 0; !seen;)
			io_uring_for_each_cqe(&ring, head, cqe)
				seen++;
		io_uring_cq_advance(&ring, seen);
		snprintf(bytes, sizeof(bytes), "x");
		fprintf(out, "timeout: %u, ", seen);
		if (write(pipes[1], "0123456789", 10) != 10)
			return;
		for (seen = 0; !seen;)
			io_uring_for_each_cqe(&ring, head, cqe)
				seen += (unsigned int)cqe->res;
		io_uring_cq_advance(&ring, 1);
		fprintf(out, "read %u: %.10s\n", seen, bytes);
		old += bytes[9];
	}
	fprintf(out, "sum %d\n", old);
	io_uring_queue_exit(&ring);
}

/* result: holds the thread's number. */
static void *work(void *result)
{
	const uint64_t first = 200 * *(uint64_t *)result;
	static __thread unsigned char bytes[BLOCK];
	struct io_uring ring = set_up(8, 0);

	for (int i = 0; i < 200; i++) {
		struct io_uring_cqe *cqe;

		fill(bytes, BLOCK);
		REQUEST(&ring, i, write, file, bytes, BLOCK, (first + (uint64_t)i) * BLOCK);
		REQUEST(&ring, i, nop);
		io_uring_submit(&ring);
		for (int k = 0; k < 2; k++) {
			io_uring_wait_cqe(&ring, &cqe);
			*(uint64_t *)result = *(uint64_t *)result * 31 + (uint64_t)cqe->res;
			io_uring_cqe_seen(&ring, cqe);
		}
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

static void threads(void)
{
	pthread_t t[3];
	uint64_t results[3] = {0, 1, 2};

	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, work, &results[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	fprintf(out, "results: %016lx %016lx %016lx\n", (long)results[0], (long)results[1], (long)results[2]);
}

static pthread_mutex_t between = PTHREAD_MUTEX_INITIALIZER;

/* Looks at the ring that the other thread submits to, again and again: how much it finds each time differs from run to run. */
static void *take_all(void *of)
{
	struct io_uring *ring = of;
	struct io_uring_cqe *cqe[8];
	unsigned int n;

	for (unsigned int taken = 0; taken < 2000; taken += n) {
		if (!(n = io_uring_peek_batch_cqe(ring, cqe, 8)) && !io_uring_wait_cqe(ring, cqe))
			n = 1;
		for (unsigned int i = 0; i < n; i++)
			fprintf(out, "%u of %u, %d\n", (unsigned int)cqe[i]->user_data, n, cqe[i]->res);
		io_uring_cq_advance(ring, n);
		pthread_mutex_lock(&between);
		pthread_mutex_unlock(&between);
	}
	return NULL;
}

static void shared(void)
{
	static unsigned char bytes[BLOCK];
	struct io_uring ring = set_up(64, 0);
	pthread_t taker;

	pthread_create(&taker, NULL, take_all, &ring);
	for (unsigned int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&between);
		REQUEST(&ring, 2 * i, write, file, bytes, BLOCK, (i % BLOCKS) * BLOCK);
		REQUEST(&ring, 2 * i + 1, nop);
		io_uring_submit(&ring);
		pthread_mutex_unlock(&between);
	}
	pthread_join(taker, NULL);
	io_uring_queue_exit(&ring);
}

/* What older kernels do not know, and what a replay could not do: refused in a recording as they refuse it. */
static void unknown(void)
{
	struct io_uring ring = set_up(4, 0), none;
	struct io_uring_probe *probe = io_uring_get_probe_ring(&ring);

	fprintf(out, "large requests: %d\n", io_uring_queue_init(4, &none, IORING_SETUP_SQE128) < 0);
	fprintf(out, "attributes: %d, read: %d\n", io_uring_opcode_supported(probe, IORING_OP_FSETXATTR),
		io_uring_opcode_supported(probe, IORING_OP_READ));
	REQUEST(&ring, 1, splice, in, -1, file, -1, 1, 0);
	io_uring_submit(&ring);
	take(&ring);
	fprintf(out, "ring descriptor: %d\n", io_uring_register_ring_fd(&ring) == 1);
	io_uring_free_probe(probe);
	io_uring_queue_exit(&ring);
	fprintf(out, "next descriptor: %d\n", dup(0));
}

static const struct a_case cases[] = {
    {"blocks", blocks},	    {"registered", registered}, {"names", names},     {"copies", copies},
    {"sockets", sockets},   {"timeouts", timeouts},	{"by_descriptor", by_descriptor},
    {"spins", spins},	    {"threads", threads},	{"shared", shared},	{"unknown", unknown},
};

int main(int argc, char **argv)
{
	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
