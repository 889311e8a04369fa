/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watched_buffers.c: one thread writes block after block of a large buffer into another one by RDMA; a second thread
 * changes some blocks in turn with it.
 *
 *     watched_buffers          prints the names of its cases
 *     watched_buffers CASE
 *
 *     behind   the second thread changes a block when its WRITE is complete
 *     racing   ... while it is under way, as far as the program knows
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loopback_qp.h"

#define BLOCK  4096
#define BLOCKS 1024
#define ROUNDS 6000
#define EACH   50 /* rounds, of which one has the second thread change its block */

static uint64_t (*from)[BLOCK / 8], (*to)[BLOCK / 8];
static struct ibv_mr *from_mr, *to_mr;
static struct ibv_cq *cq;
static struct ibv_qp *ends[2];
static sem_t may_change, has_changed;
static uint64_t (*volatile turn)[BLOCK / 8];

static void check(bool is_fine, const char *what)
{
	if (is_fine)
		return;
	fprintf(stderr, "watched_buffers: %s\n", what);
	exit(1);
}

static void *change(void *unused)
{
	for (uint32_t i = 0; i < ROUNDS / EACH; i++) {
		sem_wait(&may_change);
		(*turn)[7] = ~(uint64_t)i;
		sem_post(&has_changed);
	}
	return unused;
}

static void let_change(uint32_t round)
{
	if (round % EACH)
		return;
	turn = &from[round % BLOCKS];
	sem_post(&may_change);
	sem_wait(&has_changed);
}

static void connect_ends(struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = cq, .recv_cq = cq, .cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}, .qp_type = IBV_QPT_RC};

	for (int i = 0; i < 2; i++)
		check((ends[i] = ibv_create_qp(pd, &init)), "no queue pair");
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		for (int i = 0; i < 2; i++) {
			struct ibv_qp_attr a = loopback_attr(s, ends[!i]->qp_num, IBV_ACCESS_REMOTE_WRITE);

			check(!ibv_modify_qp(ends[i], &a, loopback_mask(s)), "a queue pair cannot be connected");
		}
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	const size_t size = (size_t)BLOCKS * BLOCK;

	check(pd, "no device");
	from = aligned_alloc(BLOCK, size);
	to = aligned_alloc(BLOCK, size);
	check(from && to, "no memory");
	memset(from, 0, size);
	memset(to, 0, size);
	from_mr = ibv_reg_mr(pd, from, size, IBV_ACCESS_LOCAL_WRITE);
	to_mr = ibv_reg_mr(pd, to, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	check(from_mr && to_mr && cq, "no memory region");
	connect_ends(pd);
}

static void post(uint32_t round)
{
	struct ibv_sge piece = {(uintptr_t)from[round % BLOCKS], BLOCK, from_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = round,
				 .sg_list = &piece,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)to[round % BLOCKS], to_mr->rkey}},
			   *bad;

	check(!ibv_post_send(ends[0], &wr, &bad), "a WRITE cannot be posted");
}

static void wait_for_completion(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	check(n == 1 && wc.status == IBV_WC_SUCCESS, "a WRITE failed");
}

int main(int argc, char **argv)
{
	const bool is_racing = argc > 1 && !strcmp(argv[1], "racing");
	pthread_t thread;

	if (argc < 2)
		return puts("behind\nracing") < 0;
	open_device();
	sem_init(&may_change, 0, 0);
	sem_init(&has_changed, 0, 0);
	check(!pthread_create(&thread, NULL, change, NULL), "no thread");
	for (uint32_t i = 0; i < ROUNDS; i++) {
		from[i % BLOCKS][0] = i;
		post(i);
		if (is_racing)
			let_change(i);
		wait_for_completion();
		if (!is_racing)
			let_change(i);
	}
	return pthread_join(thread, NULL);
}
