/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock_floor.c: what the device itself takes for the requests that clocks add.
 * bench/clock_floor runs it bare, and recorded with clocks and without.
 *
 *   clock_floor DEVICE GID_INDEX [ROUNDS [CALLS [CASE]]]
 *
 * One request at a time through a queue pair to another one of this process,
 * from the post to its completion: WRITE, READ and atomic of 8 bytes; alone, and
 * with what clocks would add to it, posted by the program: a WRITE of 8 inline
 * bytes in front of a WRITE or an atomic, a READ of a group of two's cells behind
 * a READ or an atomic.
 *
 * Prints "CASE MICROSECONDS" for each (or that one): the median over the rounds, in which the
 * cases take turns.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "rc.h"

#define MAX_ROUNDS 1001
/* As of a group of two: a head of three words, and two cells of two. */
#define CELL_BYTES 56
#define READS      4
#define DEPTH      16
#define PAGE_BYTES 4096

static struct {
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_qp *qp, *other;
	struct ibv_mr *mr;
	union ibv_gid gid;
	int gid_index;
	uint64_t *memory; /* on pages of its own: a exposed region's are watched when it is recorded */
} b;

/* ------------------------------------------------------------------ set-up */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return ibv_open_device(*list);
	return NULL;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *to)
{
	bring_up(qp, (struct ibv_qp_attr){
			 .port_num = 1,
			 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					    IBV_ACCESS_REMOTE_ATOMIC,
			 .path_mtu = IBV_MTU_1024,
			 .dest_qp_num = to->qp_num,
			 .max_dest_rd_atomic = READS,
			 .max_rd_atomic = READS,
			 .min_rnr_timer = 12,
			 .timeout = 14,
			 .retry_cnt = 7,
			 .ah_attr = {.is_global = 1,
				     .port_num = 1,
				     .grh = {.dgid = b.gid,
					     .sgid_index = (uint8_t)b.gid_index,
					     .hop_limit = 1}},
		     });
}

static void set_up(const char *device)
{
	struct ibv_pd *pd;

	b.context = open_device(device);
	pd = b.context ? ibv_alloc_pd(b.context) : NULL;
	if (!pd || ibv_query_gid(b.context, 1, b.gid_index, &b.gid))
		die(device);
	b.cq = ibv_create_cq(b.context, 64, NULL, NULL, 0);
	b.memory = aligned_alloc(PAGE_BYTES, PAGE_BYTES);
	memset(b.memory, 0, PAGE_BYTES);
	b.mr = ibv_reg_mr(pd, b.memory, PAGE_BYTES,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!b.cq || !b.mr)
		die("set-up");
	b.qp = make_qp(pd, b.cq, b.cq, DEPTH);
	b.other = make_qp(pd, b.cq, b.cq, DEPTH);
	connect_to(b.qp, b.other);
	connect_to(b.other, b.qp);
}

/* ------------------------------------------------------------------- cases */

static const struct test {
	const char *name;
	enum ibv_wr_opcode opcode;
	bool before, behind;
} tests[] = {
    {"write", IBV_WR_RDMA_WRITE, false, false},
    {"write+write", IBV_WR_RDMA_WRITE, true, false},
    {"read", IBV_WR_RDMA_READ, false, false},
    {"read+read", IBV_WR_RDMA_READ, false, true},
    {"atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, false, false},
    {"write+atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, true, false},
    {"atomic+read", IBV_WR_ATOMIC_FETCH_AND_ADD, false, true},
    {"write+atomic+read", IBV_WR_ATOMIC_FETCH_AND_ADD, true, true},
};

#define TESTS (sizeof(tests) / sizeof(tests[0]))

static void post(const struct test *t)
{
	struct ibv_sge own = {(uintptr_t)&b.memory[0], 8, b.mr->lkey};
	struct ibv_sge cells = {(uintptr_t)&b.memory[16], CELL_BYTES, b.mr->lkey};
	struct ibv_send_wr read = {.sg_list = &cells,
				   .num_sge = 1,
				   .opcode = IBV_WR_RDMA_READ,
				   .send_flags = IBV_SEND_SIGNALED,
				   .wr.rdma = {(uintptr_t)&b.memory[32], b.mr->rkey}};
	struct ibv_send_wr program = {.sg_list = &own,
				      .num_sge = 1,
				      .opcode = t->opcode,
				      .send_flags = t->behind ? 0 : IBV_SEND_SIGNALED,
				      .next = t->behind ? &read : NULL};
	struct ibv_send_wr clock = {.sg_list = &own,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .send_flags = IBV_SEND_INLINE,
				    .next = &program,
				    .wr.rdma = {(uintptr_t)&b.memory[40], b.mr->rkey}};
	struct ibv_send_wr *bad;

	if (t->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		program.wr.atomic.remote_addr = (uintptr_t)&b.memory[8];
		program.wr.atomic.rkey = b.mr->rkey;
		program.wr.atomic.compare_add = 1;
	} else {
		program.wr.rdma.remote_addr = (uintptr_t)&b.memory[8];
		program.wr.rdma.rkey = b.mr->rkey;
	}
	if (ibv_post_send(b.qp, t->before ? &clock : &program, &bad))
		die("ibv_post_send");
}

static double time_of(const struct test *t, int calls)
{
	double start = now();
	struct ibv_wc wc;
	int n;

	for (int i = 0; i < calls; i++) {
		post(t);
		while (!(n = ibv_poll_cq(b.cq, 1, &wc)))
			;
		if (n < 0 || wc.status != IBV_WC_SUCCESS)
			die(t->name);
	}
	return (now() - start) / calls / 1e3;
}

static int compare(const void *x, const void *y)
{
	double difference = *(const double *)x - *(const double *)y;

	return (difference > 0) - (difference < 0);
}

/* name: NULL for all. */
static bool is_wanted(const struct test *t, const char *name)
{
	return !name || !strcmp(t->name, name);
}

int main(int argc, char **argv)
{
	static double times[TESTS][MAX_ROUNDS];
	const char *only = argc > 5 ? argv[5] : NULL;
	int rounds = argc > 3 ? atoi(argv[3]) : 21, calls = argc > 4 ? atoi(argv[4]) : 100;

	if (argc < 3 || rounds < 1 || rounds > MAX_ROUNDS || calls < 1) {
		fprintf(stderr, "usage: clock_floor DEVICE GID_INDEX [ROUNDS [CALLS [CASE]]]\n");
		return 2;
	}
	b.gid_index = atoi(argv[2]);
	set_up(argv[1]);
	for (int round = -1; round < rounds; round++)
		for (size_t i = 0; i < TESTS; i++) {
			double us = is_wanted(&tests[i], only) ? time_of(&tests[i], calls) : 0;

			if (round >= 0)
				times[i][round] = us;
		}
	for (size_t i = 0; i < TESTS; i++) {
		if (!is_wanted(&tests[i], only))
			continue;
		qsort(times[i], (size_t)rounds, sizeof(times[i][0]), compare);
		printf("%s %.2f\n", tests[i].name, times[i][rounds / 2]);
	}
	return 0;
}
