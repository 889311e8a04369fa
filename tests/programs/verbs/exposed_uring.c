/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exposed_uring.c: io_uring reads into exposed memory, and writes from there.
 *
 *     exposed_uring           prints the names of its cases
 *     exposed_uring CASE
 *
 * Peers are queue pairs of the process itself (tests/lib/softdev).  What is printed depends on all that was read.
 */
#include <infiniband/verbs.h>
#include <liburing.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "loopback_qp.h"

#define PAGE   4096
#define BYTES  (4 * PAGE)
#define ROUNDS 20
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static unsigned char *memory, *other; /* in one region */
static struct ibv_mr *region;
static struct ibv_qp *qps[2];
static struct ibv_cq *cq;
static struct io_uring ring;
static uint64_t hash = 1;

static void set_up(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && *devices ? ibv_open_device(*devices) : NULL;
	struct ibv_pd *pd;

	CHECK(context && (pd = ibv_alloc_pd(context)));
	CHECK((cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
	CHECK(!posix_memalign((void **)&memory, PAGE, 2 * BYTES));
	memset(memory, 0, 2 * BYTES);
	other = memory + BYTES;
	CHECK((region = ibv_reg_mr(pd, memory, 2 * BYTES, ACCESS)));
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};

		CHECK((qps[i] = ibv_create_qp(pd, &attr)));
	}
	for (int n = 0; n < 6; n++) {
		struct ibv_qp_attr attr = loopback_attr(states[n / 2], qps[!(n % 2)]->qp_num, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

		CHECK(!ibv_modify_qp(qps[n % 2], &attr, loopback_mask(states[n / 2])));
	}
	CHECK(!io_uring_queue_init(8, &ring, 0));
}

/* A peer, which is the process itself, writes into exposed memory. */
static void peer_writes(const void *from, uint32_t length, void *to)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = length, .lkey = region->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	int n;

	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = region->rkey;
	CHECK(!ibv_post_send(qps[0], &wr, &bad));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
}

static int end(void)
{
	struct io_uring_cqe *cqe;
	int result;

	CHECK(!io_uring_wait_cqe(&ring, &cqe));
	result = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return result;
}

static void add(const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * 0x9e3779b97f4a7c15ull + 1;
}

/* What a socket brings goes to exposed memory, a peer copies it, and it goes out from there. */
static void through_sockets(bool is_list)
{
	unsigned char bytes[2000], again[2000];
	struct iovec in[2] = {{memory + 100, 900}, {memory + PAGE + 50, 1100}}, out[2] = {{other + 7, 900}, {other + 3 * PAGE - 500, 1100}};
	int s[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes) && write(s[0], bytes, sizeof(bytes)) == sizeof(bytes));
		if (is_list)
			io_uring_prep_readv(io_uring_get_sqe(&ring), s[1], in, 2, 0);
		else
			io_uring_prep_recv(io_uring_get_sqe(&ring), s[1], memory + 100, 2000, 0);
		io_uring_submit(&ring);
		CHECK(end() == 2000);
		add(memory, BYTES);
		peer_writes(is_list ? in[0].iov_base : memory + 100, 900, other + 7);
		peer_writes(is_list ? in[1].iov_base : memory + 1000, 1100, other + 3 * PAGE - 500);
		io_uring_prep_writev(io_uring_get_sqe(&ring), s[1], out, 2, 0);
		io_uring_submit(&ring);
		CHECK(end() == 2000 && read(s[0], again, sizeof(again)) == sizeof(again));
		CHECK(!memcmp(bytes, again, sizeof(bytes)));
		add(other, BYTES);
	}
}

static void pieces(void)
{
	through_sockets(true);
}

static void one_piece(void)
{
	through_sockets(false);
}

/* A peer writes beside what the kernel fills, into the same page, while the request waits. */
static void beside(void)
{
	unsigned char bytes[512];
	int s[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	for (int i = 0; i < ROUNDS; i++) {
		io_uring_prep_recv(io_uring_get_sqe(&ring), s[1], memory, 512, 0);
		io_uring_submit(&ring);
		CHECK(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes));
		memcpy(other, bytes, sizeof(bytes));
		peer_writes(other, 512, memory + 1024);
		add(memory, PAGE);
		CHECK(write(s[0], bytes, sizeof(bytes)) == sizeof(bytes));
		CHECK(end() == 512);
		add(memory, PAGE);
		CHECK(!memcmp(memory, memory + 1024, 512));
	}
}

/* The kernel is not given such buffers to choose from: it could not fill them. */
static void provided(void)
{
	struct io_uring_buf_reg list = {.ring_addr = (uintptr_t)other, .ring_entries = 4, .bgid = 1};

	io_uring_prep_provide_buffers(io_uring_get_sqe(&ring), memory, 512, 4, 0, 0);
	io_uring_submit(&ring);
	printf("provided: %s\n", end() < 0 ? "refused or none" : "taken");
	printf("ring: %s\n", io_uring_register_buf_ring(&ring, &list, 0) < 0 ? "refused" : "taken");
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"pieces", pieces}, {"one_piece", one_piece}, {"beside", beside}, {"provided", provided}};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc < 2)
			puts(cases[i].name);
		if (argc < 2 || strcmp(argv[1], cases[i].name))
			continue;
		set_up();
		cases[i].run();
		printf("%s: %016lx\n", argv[1], hash);
	}
	return 0;
}
