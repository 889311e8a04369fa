/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring_newer.c: what newer kernels' io_uring has, and descriptors of rings that are duplicated or inherited.
 *
 *	uring_newer CASE OUTPUT     works on the file OUTPUT.data, prints into OUTPUT; without arguments: names the cases
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uring_requests.h"

#define GROUP	7
#define BUFFERS 8
#define SIZE	512

static unsigned char memory[BUFFERS][SIZE];

static struct io_uring_sqe *last(struct io_uring *ring)
{
	return &ring->sq.sqes[(ring->sq.sqe_tail - 1) & *ring->sq.kring_mask];
}

static void take_chosen(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned int number;
	int err = io_uring_wait_cqe(ring, &cqe);

	if (err) {
		fprintf(out, "wait: %d\n", err);
		return;
	}
	number = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	fprintf(out, "%ld: %d flags %#x\n", (long)cqe->user_data, cqe->res, cqe->flags);
	if (cqe->res > 0 && cqe->flags & IORING_CQE_F_BUFFER)
		print_sum("chosen", memory[number], (size_t)cqe->res);
	io_uring_cqe_seen(ring, cqe);
}

static void send_some(int to)
{
	unsigned char bytes[SIZE];

	fill(bytes, sizeof(bytes));
	fprintf(out, "sent %zd\n", send(to, bytes, 100 + bytes[0], 0));
}

static void buffers(void)
{
	struct io_uring ring = set_up(8, 0);
	int s[2];

	socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
	REQUEST(&ring, 1, provide_buffers, memory, SIZE, BUFFERS, GROUP, 0);
	io_uring_submit(&ring);
	take(&ring);
	for (int i = 0; i < 2 * BUFFERS; i++) {
		REQUEST(&ring, 2, recv, s[1], NULL, SIZE, 0);
		last(&ring)->flags |= IOSQE_BUFFER_SELECT;
		last(&ring)->buf_group = GROUP;
		io_uring_submit(&ring);
		send_some(s[0]);
		take_chosen(&ring);
		if (i < BUFFERS / 2)
			continue;
		REQUEST(&ring, 3, provide_buffers, memory[i % BUFFERS], SIZE, 1, GROUP, i % BUFFERS);
		io_uring_submit(&ring);
		take(&ring);
	}
	REQUEST(&ring, 4, remove_buffers, BUFFERS, GROUP);
	io_uring_submit(&ring);
	take(&ring);
	io_uring_queue_exit(&ring);
}

/* The ring of buffers is the program's memory; one request has many completions. */
static void buffer_ring(void)
{
	struct io_uring ring = set_up(8, 0);
	struct io_uring_buf_ring *list = aligned_alloc(4096, 4096);
	struct io_uring_buf_reg registered = {.ring_addr = (uintptr_t)list, .ring_entries = BUFFERS, .bgid = GROUP};
	int s[2];

	socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
	memset(list, 0, 4096);
	fprintf(out, "registered: %d\n", io_uring_register_buf_ring(&ring, &registered, 0));
	for (int i = 0; i < BUFFERS; i++)
		io_uring_buf_ring_add(list, memory[i], SIZE, (unsigned short)i, io_uring_buf_ring_mask(BUFFERS), i);
	io_uring_buf_ring_advance(list, BUFFERS);
	REQUEST(&ring, 1, recv_multishot, s[1], NULL, 0, 0);
	last(&ring)->flags |= IOSQE_BUFFER_SELECT;
	last(&ring)->buf_group = GROUP;
	io_uring_submit(&ring);
	for (int i = 0; i < 3 * BUFFERS; i++) {
		send_some(s[0]);
		take_chosen(&ring);
		io_uring_buf_ring_add(list, memory[i % BUFFERS], SIZE, (unsigned short)(i % BUFFERS), io_uring_buf_ring_mask(BUFFERS), 0);
		io_uring_buf_ring_advance(list, 1);
	}
	REQUEST(&ring, 2, cancel64, 1, 0);
	io_uring_submit(&ring);
	take(&ring);
	take(&ring);
	fprintf(out, "unregistered: %d\n", io_uring_unregister_buf_ring(&ring, GROUP));
	io_uring_queue_exit(&ring);
	free(list);
}

/* Files and sockets that have a place among the registered ones only. */
static void without_number(void)
{
	struct io_uring ring = set_up(8, 0);
	static unsigned char bytes[BLOCK], again[BLOCK];
	char path[300];
	int s[2];

	snprintf(path, sizeof(path), "%s.1", data_path);
	fill(bytes, sizeof(bytes));
	fprintf(out, "sparse: %d\n", io_uring_register_files_sparse(&ring, 4));
	REQUEST(&ring, 1, openat_direct, AT_FDCWD, path, O_CREAT | O_RDWR | O_TRUNC, 0600, 2);
	link_last(&ring);
	REQUEST(&ring, 2, write, 2, bytes, BLOCK, 0);
	last(&ring)->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK;
	REQUEST(&ring, 3, read, 2, again, BLOCK, 0);
	last(&ring)->flags |= IOSQE_FIXED_FILE;
	io_uring_submit(&ring);
	take(&ring);
	take(&ring);
	take(&ring);
	print_sum("again", again, BLOCK);
	REQUEST(&ring, 4, socket_direct, AF_UNIX, SOCK_STREAM, 0, 1, 0);
	io_uring_submit(&ring);
	take(&ring);
	REQUEST(&ring, 5, close_direct, 2);
	io_uring_submit(&ring);
	take(&ring);
	socketpair(AF_UNIX, SOCK_STREAM, 0, s);
	REQUEST(&ring, 6, files_update, s, 1, 2);
	io_uring_submit(&ring);
	take(&ring);
	REQUEST(&ring, 7, send, 2, bytes, 10, 0);
	last(&ring)->flags |= IOSQE_FIXED_FILE;
	io_uring_submit(&ring);
	take(&ring);
	fprintf(out, "got %zd\n", recv(s[1], again, BLOCK, 0));
	fprintf(out, "removed: %d, next descriptor %d\n", unlink(path), dup(0));
	io_uring_queue_exit(&ring);
}

/* Requests that have a completion only if they fail. */
static void silent(void)
{
	struct io_uring ring = set_up(8, 0);
	struct __kernel_timespec ts = {.tv_nsec = 2000000};
	unsigned char bytes[BLOCK];
	int s[2], copy = dup(file);

	socketpair(AF_UNIX, SOCK_STREAM, 0, s);
	fill(bytes, sizeof(bytes));
	REQUEST(&ring, 1, write, file, bytes, BLOCK, 0);
	last(&ring)->flags |= IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
	REQUEST(&ring, 2, send, s[0], bytes, 100, 0);
	last(&ring)->flags |= IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
	REQUEST(&ring, 3, close, copy);
	last(&ring)->flags |= IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
	REQUEST(&ring, 4, timeout, &ts, 0, 0);
	fprintf(out, "submitted %d\n", io_uring_submit(&ring));
	take(&ring);
	fprintf(out, "closed: %d, ", fcntl(copy, F_GETFD));
	fprintf(out, "next %d\n", dup(s[1]));
	fprintf(out, "got %zd\n", recv(s[1], bytes, BLOCK, 0));
	REQUEST(&ring, 5, write, -1, bytes, BLOCK, 0);
	last(&ring)->flags |= IOSQE_CQE_SKIP_SUCCESS;
	REQUEST(&ring, 6, close, 999);
	last(&ring)->flags |= IOSQE_CQE_SKIP_SUCCESS;
	REQUEST(&ring, 7, nop);
	io_uring_submit(&ring);
	for (int i = 0; i < 3; i++)
		take(&ring);
	io_uring_queue_exit(&ring);
}

/* A thread of the kernel's takes the requests: the program enters only if that sleeps, or to wait. */
static void polling(void)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 50};
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	unsigned char bytes[BLOCK], again[BLOCK];

	fprintf(out, "ring: %d\n", io_uring_queue_init_params(8, &ring, &p));
	for (int i = 0; i < 20; i++) {
		fill(bytes, BLOCK);
		REQUEST(&ring, 1, write, file, bytes, BLOCK, (uint64_t)i * BLOCK);
		io_uring_submit(&ring);
		take(&ring);
		REQUEST(&ring, 2, read, file, again, BLOCK, (uint64_t)i * BLOCK);
		io_uring_submit(&ring);
		while (io_uring_peek_cqe(&ring, &cqe))
			;
		fprintf(out, "%ld: %d\n", (long)cqe->user_data, cqe->res);
		io_uring_cqe_seen(&ring, cqe);
		print_sum("again", again, BLOCK);
	}
	io_uring_queue_exit(&ring);
}

static void messages(void)
{
	struct io_uring ring = set_up(8, 0), other = set_up(8, 0);
	struct io_uring_cqe *cqe;

	for (int i = 0; i < 5; i++) {
		REQUEST(&ring, 1, msg_ring, other.ring_fd, 40u + (unsigned int)i, 4711, 0);
		io_uring_submit(&ring);
		take(&ring);
		if (i % 2)
			take(&other);
		else
			while (io_uring_peek_cqe(&other, &cqe))
				;
		if (!(i % 2)) {
			fprintf(out, "%ld: %d\n", (long)cqe->user_data, cqe->res);
			io_uring_cqe_seen(&other, cqe);
		}
	}
	io_uring_queue_exit(&other);
	io_uring_queue_exit(&ring);
}

static void zero_copy(void)
{
	struct io_uring ring = set_up(8, 0);
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(name);
	int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
	static unsigned char bytes[BLOCK], again[BLOCK];

	bind(to, (struct sockaddr *)&name, sizeof(name));
	getsockname(to, (struct sockaddr *)&name, &length);
	connect(from, (struct sockaddr *)&name, length);
	for (int i = 0; i < 4; i++) {
		fill(bytes, BLOCK);
		REQUEST(&ring, 1, send_zc, from, bytes, 1000, 0, 0);
		io_uring_submit(&ring);
		take(&ring);
		take(&ring);
		fprintf(out, "got %zd\n", recv(to, again, BLOCK, 0));
		print_sum("again", again, 1000);
	}
	io_uring_queue_exit(&ring);
}

/* Descriptors come with a message. */
static void passed(void)
{
	struct io_uring ring = set_up(8, 0);
	union { struct cmsghdr header; char room[CMSG_SPACE(2 * sizeof(int))]; } control = {0}, got = {0};
	char text[8] = "two", there[8];
	struct iovec piece = {text, sizeof(text)}, to = {there, sizeof(there)};
	struct msghdr sent = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct msghdr m = {.msg_iov = &to, .msg_iovlen = 1, .msg_control = &got, .msg_controllen = sizeof(got)};
	int s[2], p[2], fds[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, s);
	pipe(p);
	control.header = (struct cmsghdr){CMSG_LEN(sizeof(p)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.header), p, sizeof(p));
	sendmsg(s[0], &sent, 0);
	REQUEST(&ring, 1, recvmsg, s[1], &m, 0);
	io_uring_submit(&ring);
	take(&ring);
	memcpy(fds, CMSG_DATA(&got.header), sizeof(fds));
	fprintf(out, "%s: %d %d, next %d\n", there, fds[0], fds[1], dup(0));
	fprintf(out, "wrote %zd\n", write(fds[1], "through the pipe", 16));
	fprintf(out, "read %zd: %.8s\n", read(fds[0], there, 8), there);
	io_uring_queue_exit(&ring);
}

/* The ring goes by another descriptor. */
static void duplicates(void)
{
	struct io_uring ring = set_up(8, 0);
	int other = dup(ring.ring_fd), third = fcntl(ring.ring_fd, F_DUPFD, 50);
	unsigned char bytes[BLOCK];

	fill(bytes, BLOCK);
	for (int i = 0; i < 3; i++) {
		REQUEST(&ring, i, write, file, bytes, BLOCK, (uint64_t)i * BLOCK);
		io_uring_submit(&ring);
		take(&ring);
		if (!i) {
			close(ring.ring_fd);
			ring.ring_fd = ring.enter_ring_fd = other;
		} else if (i == 1) {
			close(other);
			ring.ring_fd = ring.enter_ring_fd = third;
		}
	}
	fprintf(out, "next %d\n", dup(0));
	io_uring_queue_exit(&ring);
}

/* The child submits to its parent's ring; who waits, gets the completions. */
static void inherited(void)
{
	struct io_uring ring = set_up(8, 0);
	struct __kernel_timespec ts = {.tv_nsec = 1000000};
	int status;
	pid_t child = fork();

	if (!child) {
		REQUEST(&ring, 11, timeout, &ts, 0, 0);
		io_uring_submit(&ring);
		take(&ring);
		REQUEST(&ring, 12, nop);
		REQUEST(&ring, 13, nop);
		_exit(io_uring_submit(&ring));
	}
	waitpid(child, &status, 0);
	fprintf(out, "submitted %d\n", WEXITSTATUS(status));
	take(&ring);
	take(&ring);
	io_uring_queue_exit(&ring);
}

/* A child that is not recorded: it learns that it has no ring, and does not wait. */
static void refused(void)
{
	struct io_uring ring = set_up(8, 0);
	int status;
	pid_t child;

	child = fork();
	if (!child) {
		REQUEST(&ring, 1, nop);
		_exit(-io_uring_submit_and_wait(&ring, 1));
	}
	waitpid(child, &status, 0);
	fprintf(out, "child: %s\n", WEXITSTATUS(status) == EOPNOTSUPP ? "refused" : "else");
	REQUEST(&ring, 2, nop);
	io_uring_submit(&ring);
	take(&ring);
	io_uring_queue_exit(&ring);
}

static const struct a_case cases[] = {
    {"buffers", buffers},   {"buffer_ring", buffer_ring}, {"without_number", without_number}, {"silent", silent},
    {"polling", polling},   {"messages", messages},	  {"zero_copy", zero_copy},	      {"passed", passed},
    {"duplicates", duplicates}, {"inherited", inherited}, {"refused", refused},
};

int main(int argc, char **argv)
{
	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
