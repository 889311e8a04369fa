/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c: many queue pairs, threads that are cancelled, ends of threads and programs. */
#include "hostile_verbs/shared.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 200

static void many_queue_pairs(void)
{
	struct ibv_qp *q[MANY];

	for (int i = 0; i < MANY; i++)
		q[i] = new_qp();
	for (uint64_t i = 0; i < MANY; i++) {
		receive(q[i], i, piece(0, 64));
		send_it(q[i], 1000 + i, piece(PAGE, 64), i % 3 ? IBV_SEND_SIGNALED : 0);
	}
	for (int i = 0; i < MANY; i += 2)
		ibv_destroy_qp(q[i]);
	show_completions();
	for (int i = 0; i < MANY; i += 2)
		q[i] = new_qp();
	for (uint64_t i = 0; i < MANY; i++) {
		receive(q[i], i, piece(0, 64));
		send_it(q[i], 1000 + i, piece(PAGE, 64), i % 3 ? IBV_SEND_SIGNALED : 0);
	}
	show_completions();
}

/* One chain, posted by several threads at once. */
static struct ibv_send_wr shared_wr[3];
static struct ibv_sge shared_sge;

static void *post_the_shared_chain(void *q)
{
	struct ibv_send_wr *bad;
	intptr_t failed = 0;

	for (int i = 0; i < 200; i++)
		failed += ibv_post_send(q, shared_wr, &bad) != 0;
	return (void *)failed;
}

static void one_chain_for_all(void)
{
	pthread_t threads[4];
	struct ibv_wc wc[64];
	int n, polled = 0, wrong = 0;
	void *failed;

	/* Queue pairs without a peer complete at once: in the reset state nobody receives. */
	shared_sge = piece(0, 8);
	for (int i = 0; i < 3; i++)
		shared_wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
						    .next = i < 2 ? &shared_wr[i + 1] : NULL,
						    .sg_list = &shared_sge,
						    .num_sge = 1,
						    .opcode = IBV_WR_RDMA_READ,
						    .send_flags = i == 2 ? IBV_SEND_SIGNALED : 0};
	for (int i = 0; i < 3; i++) {
		shared_wr[i].wr.rdma.rkey = 1;
		shared_wr[i].wr.rdma.remote_addr = 8;
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, post_the_shared_chain, new_qp());
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &failed);
		printf("thread %d: %s\n", i, failed ? "some refused" : "none refused");
	}
	while ((n = ibv_poll_cq(cq, 64, wc)) > 0)
		for (polled += n; n; n--)
			wrong += wc[n - 1].wr_id > 2;
	printf("%d completions: %d wrong\n", polled > 0, wrong);
}

static void unlock(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

static void *wait_for_event(void *unused)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct ibv_cq *which;
	void *data;

	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, &mutex);
	ibv_req_notify_cq(cq, 0);
	ibv_get_cq_event(channel, &which, &data);
	pthread_cleanup_pop(1);
	return NULL;
}

static void cancelled_in_an_event(void)
{
	pthread_t t;
	void *result;

	pthread_create(&t, NULL, wait_for_event, NULL);
	usleep(50000);
	pthread_cancel(t);
	pthread_join(t, &result);
	printf("cancelled: %d\n", result == PTHREAD_CANCELED);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
}

static void *poll_until_cancelled(void *unused)
{
	struct ibv_wc wc;

	for (;;) {
		ibv_poll_cq(cq, 1, &wc);
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled_in_a_poll_loop(void)
{
	pthread_t t;
	void *result;

	pthread_create(&t, NULL, poll_until_cancelled, NULL);
	usleep(20000);
	pthread_cancel(t);
	pthread_join(t, &result);
	printf("cancelled: %d\n", result == PTHREAD_CANCELED);
}

static void release_late(void *p)
{
	printf("destructor: dereg %d\n", ibv_dereg_mr(p));
	show_completions();
}

static pthread_key_t key;

static void *leave_a_region(void *unused)
{
	static char bytes[PAGE];

	pthread_setspecific(key, ibv_reg_mr(pd, bytes, PAGE, 0));
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	return NULL;
}

static void verbs_in_a_destructor(void)
{
	pthread_t t;

	pthread_key_create(&key, release_late);
	pthread_create(&t, NULL, leave_a_region, NULL);
	pthread_join(t, NULL);
}

static void verbs_at_exit(void)
{
	atexit(clean_up);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
}

static void threads_with_the_smallest_stack(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
	for (int i = 0; i < 3; i++) {
		if (pthread_create(&t, &attr, small_stack, NULL))
			printf("no thread\n");
		else
			pthread_join(t, NULL);
	}
}

const struct hostile_case threads_cases[] = {
    {"many-queue-pairs", many_queue_pairs},
    {"one-chain-for-all", one_chain_for_all},
    {"cancelled-in-an-event", cancelled_in_an_event},
    {"cancelled-in-a-poll-loop", cancelled_in_a_poll_loop},
    {"verbs-in-a-destructor", verbs_in_a_destructor},
    {"verbs-at-exit", verbs_at_exit},
    {"smallest-stack", threads_with_the_smallest_stack},
    {0},
};
