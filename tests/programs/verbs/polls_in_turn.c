/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * polls_in_turn.c: waiting loops of a library that polls several completion queues in turn.  Most polls find nothing.
 *
 *     polls_in_turn           prints the names of its cases
 *     polls_in_turn CASE
 *
 * What is printed depends on what each poll returned and left in errno.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define QUEUES 3
#define ROUNDS 20000

static struct ibv_cq *queues[QUEUES];
static struct ibv_qp *qp; /* connected to nobody: the stand-in completes what it is given at once */
static uint64_t polls, sum;

static void poll_one(struct ibv_cq *cq, int entries, struct ibv_wc *wc, int error)
{
	int found;

	errno = error;
	found = ibv_poll_cq(cq, entries, wc);
	polls++;
	sum = sum * 31 + (uint64_t)found * 7 + (uint64_t)errno;
	for (int i = 0; i < found; i++)
		sum = sum * 31 + wc[i].wr_id;
}

static void send_one(uint64_t id)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	CHECK(!ibv_post_send(qp, &wr, &bad));
}

/* One after the other; a completion comes now and then. */
static void in_turn(void)
{
	struct ibv_wc wc[4];

	for (uint64_t i = 0; i < ROUNDS; i++) {
		if (i % 997 == 996)
			send_one(i);
		for (int q = 0; q < QUEUES; q++)
			poll_one(queues[q], 4, wc, 0);
	}
}

/* One queue, again and again. */
static void one_queue(void)
{
	struct ibv_wc wc[4];

	for (uint64_t i = 0; i < ROUNDS; i++) {
		if (i % 997 == 996)
			send_one(i);
		poll_one(queues[0], 4, wc, 0);
	}
}

/* The order, the room, the place for completions and errno change now and then. */
static void with_changes(void)
{
	struct ibv_wc wc[8];

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t phase = i / 61;

		for (int q = 0; q < QUEUES; q++)
			poll_one(queues[(q + phase) % QUEUES], 1 + phase % 4, wc + phase % 5, phase % 7 ? 0 : EAGAIN);
		if (phase % 3 == 2)
			poll_one(queues[1], 2, wc, 0);
		if (i % 2003 == 2002)
			send_one(i);
	}
}

static void *wait_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Where completions come, and registered memory, lie on the same page, which stays protected as there are threads. */
static void beside_a_region(void)
{
	pthread_t thread;
	struct beside {
		uint64_t region[64];
		struct ibv_wc wc[20];
	} *page = aligned_alloc(4096, 4096);

	CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
	CHECK(page && ibv_reg_mr(qp->pd, page->region, sizeof(page->region), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	for (uint64_t i = 0; i < ROUNDS; i++) {
		for (int n = 0; n < 20; n++)
			send_one(i + (uint64_t)n);
		poll_one(queues[0], 20, page->wc, 0);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"in_turn", in_turn}, {"one_queue", one_queue}, {"with_changes", with_changes}, {"beside_a_region", beside_a_region}};

static void open_all(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024};

	CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])));
	CHECK(pd = ibv_alloc_pd(context));
	for (int q = 0; q < QUEUES; q++)
		CHECK(queues[q] = ibv_create_cq(context, 64, NULL, NULL, 0));
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = queues[0],
							  .recv_cq = queues[0],
							  .cap = {.max_send_wr = 64, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
							  .qp_type = IBV_QPT_UC});
	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc < 2)
			puts(cases[i].name);
		if (argc < 2 || strcmp(argv[1], cases[i].name))
			continue;
		open_all();
		cases[i].run();
		printf("%s: %lu polls, %016lx\n", argv[1], polls, sum);
	}
	return 0;
}
