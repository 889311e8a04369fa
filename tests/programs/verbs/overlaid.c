/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * overlaid.c: a message lands in a receive's memory, a READ's bytes land over it, and only then is the
 * receive's completion polled.
 *
 *   overlaid
 *
 * libfabric's fi_rma_bw does so by chance at its end.  A queue pair connected to itself; prints what
 * the receive's memory holds.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "loopback_qp.h"

#define SIZE   64u
#define ROUNDS 4

static char received[SIZE], message[SIZE], remote[SIZE];

static struct ibv_mr *registered(struct ibv_pd *pd, char *p, int access)
{
	return check(ibv_reg_mr(pd, p, SIZE, access), "ibv_reg_mr");
}

static void wait_for(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	check(n == 1 && wc.status == IBV_WC_SUCCESS ? cq : NULL, "ibv_poll_cq");
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge sge, const struct ibv_mr *from)
{
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (from) {
		wr.wr.rdma.remote_addr = (uintptr_t)from->addr;
		wr.wr.rdma.rkey = from->rkey;
	}
	check(ibv_post_send(qp, &wr, &bad) ? NULL : qp, "ibv_post_send");
	wait_for(qp->send_cq);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = check(list && list[0] ? ibv_open_device(list[0]) : NULL, "a device");
	struct ibv_pd *pd = check(ibv_alloc_pd(context), "ibv_alloc_pd");
	struct ibv_qp_init_attr attr = {
	    .send_cq = check(ibv_create_cq(context, 8, NULL, NULL, 0), "ibv_create_cq"),
	    .recv_cq = check(ibv_create_cq(context, 8, NULL, NULL, 0), "ibv_create_cq"),
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = check(ibv_create_qp(pd, &attr), "ibv_create_qp");
	struct ibv_mr *to = registered(pd, received, IBV_ACCESS_LOCAL_WRITE), *of = registered(pd, message, 0);
	struct ibv_mr *from = registered(pd, remote, IBV_ACCESS_REMOTE_READ);

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr state = loopback_attr(s, qp->qp_num, IBV_ACCESS_REMOTE_READ);

		check(ibv_modify_qp(qp, &state, loopback_mask(s)) ? NULL : qp, "ibv_modify_qp");
	}
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_sge whole = {(uintptr_t)received, SIZE, to->lkey}, part = {(uintptr_t)received + 8, 16, to->lkey};
		struct ibv_recv_wr wr = {.sg_list = &whole, .num_sge = 1}, *bad;

		memset(message, 'a' + round, SIZE);
		memset(remote, 'A' + round, SIZE);
		check(ibv_post_recv(qp, &wr, &bad) ? NULL : qp, "ibv_post_recv");
		post(qp, IBV_WR_SEND, (struct ibv_sge){(uintptr_t)message, SIZE, of->lkey}, NULL);
		post(qp, IBV_WR_RDMA_READ, part, from);
		wait_for(qp->recv_cq);
		printf("%.*s\n", (int)SIZE, received);
	}
	return 0;
}
