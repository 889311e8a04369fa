/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c: threads that post, and poll one completion queue. */
#include "loopback/loopback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS  4
#define REQUESTS 20000

static _Atomic unsigned char seen[2][THREADS][REQUESTS];
static atomic_int seen_in_all;

/*
 * "threads" counts by plain atomics, and so cannot be replayed; "turns" counts
 * under a lock and prints who saw which completion, in their order.
 */
bool in_turns;
uint32_t requests = REQUESTS;
static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t order_seen;
static struct ibv_qp *shared_qp; /* NULL: each thread posts on its own */

static void note_order(uint32_t me, const struct ibv_wc *wc, int n)
{
	pthread_mutex_lock(&turns_lock);
	for (int i = 0; i < n; i++)
		order_seen = (order_seen ^ wc[i].wr_id ^ me) * 0x100000001b3u;
	seen_in_all += n;
	pthread_mutex_unlock(&turns_lock);
}

static bool all_seen(void)
{
	bool all;

	if (!in_turns)
		return seen_in_all >= 2 * THREADS * (int)requests;
	pthread_mutex_lock(&turns_lock);
	all = seen_in_all >= 2 * THREADS * (int)requests;
	pthread_mutex_unlock(&turns_lock);
	return all;
}

static void poll_counting(uint32_t me)
{
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(w.cq[0], 4, wc);

	if (in_turns && n > 0)
		note_order(me, wc, n);

	for (int i = 0; i < n; i++) {
		uint32_t thread = (uint32_t)(wc[i].wr_id >> 32), k = (uint32_t)wc[i].wr_id;

		if (wc[i].status != IBV_WC_SUCCESS || thread >= THREADS || k >= REQUESTS)
			printf("wr_id %llx: %s\n", (unsigned long long)wc[i].wr_id,
			       ibv_wc_status_str(wc[i].status));
		else
			seen[wc[i].opcode & IBV_WC_RECV ? 1 : 0][thread][k]++;
		if (!in_turns)
			seen_in_all++;
	}
}

static void *post_and_poll(void *argument)
{
	struct end *e = argument;
	uint32_t me = (uint32_t)e->name;
	struct ibv_qp *qp = shared_qp ? shared_qp : e->qp;
	struct ibv_sge from = {(uintptr_t)e->source, 64, e->source_mr->lkey};
	struct ibv_sge to = {e->sink_iova, 64, e->sink_mr->lkey};

	for (uint32_t k = 0; k < requests; k++) {
		uint64_t wr_id = (uint64_t)e->name << 32 | k;
		struct ibv_recv_wr recv = {.wr_id = wr_id, .sg_list = &to, .num_sge = 1}, *bad_recv;
		struct ibv_send_wr send = {.wr_id = wr_id, .sg_list = &from, .num_sge = 1},
				   *bad_send;

		send.opcode = IBV_WR_SEND;
		send.send_flags = IBV_SEND_SIGNALED;
		while (ibv_post_recv(qp, &recv, &bad_recv))
			poll_counting(me);
		while (ibv_post_send(qp, &send, &bad_send))
			poll_counting(me);
		poll_counting(me);
	}
	while (!all_seen())
		poll_counting(me);
	return NULL;
}

int poll_in_threads(bool shared)
{
	pthread_t threads[THREADS];
	int wrong = 0;

	w.cq[1] = w.cq[0];
	w.features = "-";
	for (w.n_ends = 0; w.n_ends < THREADS; w.n_ends++) {
		create_qp(&w.ends[w.n_ends]);
		w.ends[w.n_ends].peer = &w.ends[w.n_ends];
		to_state(&w.ends[w.n_ends], IBV_QPS_INIT);
		to_state(&w.ends[w.n_ends], IBV_QPS_RTR);
		to_state(&w.ends[w.n_ends], IBV_QPS_RTS);
	}
	if (shared)
		shared_qp = w.ends[0].qp;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, post_and_poll, &w.ends[i]))
			exit(1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int kind = 0; kind < 2; kind++)
		for (int i = 0; i < THREADS; i++)
			for (uint32_t k = 0; k < requests; k++)
				wrong += seen[kind][i][k] != 1;
	if (in_turns)
		printf("order %016llx\n", (unsigned long long)order_seen);
	printf("%d requests did not complete exactly once\n", wrong);
	return wrong > 0;
}
