/* SPDX-License-Identifier: BSD-2-Clause */
/* pairs.c: queue pairs: made, connected, destroyed. */
#include "loopback/loopback.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int to_state(struct end *e, enum ibv_qp_state state)
{
	const unsigned int access =
	    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const int of_rc = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
			  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr attr =
	    loopback_attr(state, e->peer->qp ? e->peer->qp->qp_num : 0, access);
	int mask = loopback_mask(state);

	attr.min_rnr_timer = 12;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	return ibv_modify_qp(e->qp, &attr, e->type == IBV_QPT_RC ? mask : mask & ~of_rc);
}

/* What it was made with and what it was told: nothing that a recorder may have added. */
static void show_qp(const struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_CAP, &init);

	printf("end %d: query %d: state %d access %x reads %d %d sends %u sges %u inline %u "
	       "sig_all %d\n",
	       e->name, err, attr.qp_state, attr.qp_access_flags, attr.max_rd_atomic,
	       attr.max_dest_rd_atomic, init.cap.max_send_wr, init.cap.max_send_sge,
	       init.cap.max_inline_data, init.sq_sig_all);
}

void connect_ends(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	for (int s = 0; s < 3; s++) {
		for (int i = 0; i < w.n_ends; i++)
			printf("end %d, qp %x, to state %d: %d\n", i, w.ends[i].qp->qp_num,
			       states[s], to_state(&w.ends[i], states[s]));
		/* Before they are connected receives may be posted, sends not. */
		if (states[s] == IBV_QPS_INIT && one_in(2))
			post_receives(&w.ends[chance((uint32_t)w.n_ends)]);
	}
	for (int i = 0; i < w.n_ends; i++)
		show_qp(&w.ends[i]);
}

void create_qp(struct end *e)
{
	if (!e->type)
		e->type = IBV_QPT_RC;
	struct ibv_qp_init_attr_ex attr = {
	    .send_cq = w.cq[0],
	    .recv_cq = w.cq[1],
	    .srq = w.srq,
	    .cap = {DEPTH, DEPTH, MAX_SGE, MAX_SGE, INLINE},
	    .qp_type = e->type,
	    .sq_sig_all = w.sig_all,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = w.pd,
	};

	if (feature('x', 3)) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags =
		    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
		    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
		    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	}
	e->qp = check(ibv_create_qp_ex(w.context, &attr), "ibv_create_qp_ex");
	e->ex = attr.send_ops_flags ? check(ibv_qp_to_qp_ex(e->qp), "ibv_qp_to_qp_ex") : NULL;
}

void destroy_qp(struct end *e)
{
	printf("end %d: destroy %d\n", e->name, ibv_destroy_qp(e->qp));
	e->qp = NULL;
	e->ex = NULL;
	memset(&e->sent, 0, sizeof(e->sent));
	memset(&e->received, 0, sizeof(e->received));
}

void create_memory(struct end *e, int name)
{
	e->name = name;
	e->source = check(aligned_alloc(SLOT, SLOTS * SLOT), "memory");
	e->sink = check(aligned_alloc(SLOT, SLOTS * SLOT), "memory");
	e->fetched = check(aligned_alloc(SLOT, SLOTS * SLOT), "memory");
	e->region = check(aligned_alloc(SLOT, 2 * SLOT), "memory");
	memset(e->sink, 0, SLOTS * SLOT);
	memset(e->fetched, 0, SLOTS * SLOT);
	memset(e->region, name, 2 * SLOT);
	/* Every second end's buffers have addresses of their own on the device. */
	e->sink_iova = name % 2 ? (uintptr_t)e->sink : 0x10000000;
	e->source_mr = check(ibv_reg_mr(w.pd, e->source, SLOTS * SLOT, 0), "ibv_reg_mr");
	e->sink_mr = check(
	    ibv_reg_mr_iova(w.pd, e->sink, SLOTS * SLOT, e->sink_iova, IBV_ACCESS_LOCAL_WRITE),
	    "ibv_reg_mr_iova");
	e->fetched_mr =
	    check(ibv_reg_mr(w.pd, e->fetched, SLOTS * SLOT, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	e->exposed_mr = check(ibv_reg_mr(w.pd, e->region, 2 * SLOT,
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
			     "ibv_reg_mr");
}
