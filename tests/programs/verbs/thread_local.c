/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * thread_local.c: a queue pair WRITEs over loopback into thread-local memory, of the first thread and of another one.
 *
 *     thread_local
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loopback_qp.h"

#define BYTES 3000

static __thread char memory[BYTES];
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static int written;

static void need(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void connect_both(struct ibv_context *context)
{
	struct ibv_qp_init_attr of = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};

	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	need(pd && cq, "objects");
	of.send_cq = of.recv_cq = cq;
	for (int i = 0; i < 2; i++)
		need((qp[i] = ibv_create_qp(pd, &of)) != NULL, "queue pair");
	for (int i = 0; i < 2; i++)
		for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
			struct ibv_qp_attr attr = loopback_attr(state, qp[!i]->qp_num, IBV_ACCESS_REMOTE_WRITE);

			need(!ibv_modify_qp(qp[i], &attr, loopback_mask(state)), "connecting");
		}
}

/* This thread's memory gets n in all bytes. */
static void write_own(int n)
{
	static char source[BYTES];
	struct ibv_mr *from = ibv_reg_mr(pd, source, BYTES, 0);
	struct ibv_mr *to = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_sge sge = {(uintptr_t)source, BYTES, from->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	struct ibv_wc wc;

	memset(source, n, BYTES);
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = to->rkey;
	need(!ibv_post_send(qp[0], &wr, &bad), "post");
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	printf("status %d, %d and %d\n", wc.status, memory[0], memory[BYTES - 1]);
	memory[0]++;
	ibv_dereg_mr(to);
	ibv_dereg_mr(from);
}

static void *thread(void *unused)
{
	write_own(3);
	__atomic_store_n(&written, 1, __ATOMIC_SEQ_CST);
	return unused;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	pthread_t other;

	need(context != NULL, "device");
	connect_both(context);
	write_own(1);
	write_own(2);
	need(!pthread_create(&other, NULL, thread, NULL), "thread");
	/* The device replaces the page at which pthread_join waits. */
	while (!__atomic_load_n(&written, __ATOMIC_SEQ_CST))
		usleep(1000);
	return pthread_join(other, NULL);
}
