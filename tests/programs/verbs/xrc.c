/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrc.c: a process that is its own peer over XRC: two initiators, each with a target, and two
 * shared receive queues in protection domains of their own.  SENDs, WRITEs, READs and atomics,
 * one by one, by lists and by builders; prints what came of them.
 *
 *   xrc [ROUNDS]
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "loopback_qp.h"

#define ENDS  2
#define DEPTH 8
#define WORDS 64

static struct {
	struct ibv_context *context;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cq;
} w;

/* An initiator, its target, and the shared queue and memory that its requests go to. */
struct end {
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct ibv_qp *initiator, *target;
	uint64_t words[WORDS];
	struct ibv_mr *mr;
};

static struct end ends[ENDS];

static void to_state(struct ibv_qp *qp, const struct ibv_qp *peer, enum ibv_qp_state state)
{
	const unsigned int access =
	    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr attr = loopback_attr(state, peer->qp_num, access);
	int err = ibv_modify_qp(qp, &attr, loopback_mask(state));

	if (err) {
		fprintf(stderr, "ibv_modify_qp: %s\n", strerror(err));
		exit(1);
	}
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	to_state(qp, peer, IBV_QPS_INIT);
	to_state(qp, peer, IBV_QPS_RTR);
	to_state(qp, peer, IBV_QPS_RTS);
}

static void create(struct end *e, bool builds)
{
	struct ibv_srq_init_attr_ex srq = {
	    .attr = {.max_wr = DEPTH, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			 IBV_SRQ_INIT_ATTR_CQ,
	    .srq_type = IBV_SRQT_XRC,
	    .xrcd = w.xrcd,
	    .cq = w.cq,
	};
	struct ibv_qp_init_attr_ex target = {
	    .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = w.xrcd};
	struct ibv_qp_init_attr_ex initiator = {
	    .send_cq = w.cq,
	    .cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
	    .qp_type = IBV_QPT_XRC_SEND,
	    .comp_mask = IBV_QP_INIT_ATTR_PD | (builds ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
	    .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
			      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};

	e->pd = srq.pd = initiator.pd = check(ibv_alloc_pd(w.context), "ibv_alloc_pd");
	e->srq = check(ibv_create_srq_ex(w.context, &srq), "ibv_create_srq_ex");
	if (ibv_get_srq_num(e->srq, &e->srqn))
		exit(1);
	e->target = check(ibv_create_qp_ex(w.context, &target), "target");
	e->initiator = check(ibv_create_qp_ex(w.context, &initiator), "initiator");
	e->mr = check(ibv_reg_mr(e->pd, e->words, sizeof(e->words),
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
		      "ibv_reg_mr");
}

static int poll_all(int expected)
{
	struct ibv_wc wc;
	int wrong = 0;

	for (int n = 0, tries = 0; n < expected && tries < 100000; tries++) {
		if (ibv_poll_cq(w.cq, 1, &wc) != 1)
			continue;
		n++;
		wrong += wc.status != IBV_WC_SUCCESS;
		printf("  %llx %s op %d\n", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
		       wc.status ? -1 : (int)wc.opcode);
	}
	if (ibv_poll_cq(w.cq, 1, &wc))
		printf("one too many\n"), wrong++;
	return wrong;
}

/* From end `from`'s memory to that of `to`, whose shared queue says by which domain. */
static void fill(struct ibv_send_wr *wr, struct ibv_sge *sge, enum ibv_wr_opcode opcode,
		 const struct end *from, const struct end *to, int word)
{
	bool is_atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	*sge = (struct ibv_sge){(uintptr_t)&from->words[word], 8, from->mr->lkey};
	*wr = (struct ibv_send_wr){.wr_id = 0x100u * opcode + (unsigned int)word,
				   .sg_list = sge,
				   .num_sge = 1,
				   .opcode = opcode,
				   .send_flags = IBV_SEND_SIGNALED,
				   .qp_type.xrc.remote_srqn = to->srqn};
	if (is_atomic) {
		wr->wr.atomic.remote_addr = (uintptr_t)&to->words[word + 32];
		wr->wr.atomic.rkey = to->mr->rkey;
		wr->wr.atomic.compare_add = 3;
	} else {
		wr->wr.rdma.remote_addr = (uintptr_t)&to->words[word + 32];
		wr->wr.rdma.rkey = to->mr->rkey;
	}
}

static int post_list(struct end *from, struct end *to, int round)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_sge to_sge = {(uintptr_t)&to->words[16], 8, to->mr->lkey}, sge[4];
	struct ibv_recv_wr recv = {.wr_id = 7, .sg_list = &to_sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr wr[4], *bad;

	if (ibv_post_srq_recv(to->srq, &recv, &bad_recv))
		return 1;
	for (int i = 0; i < 4; i++) {
		fill(&wr[i], &sge[i], opcodes[i], from, to, i + 4);
		if (i)
			wr[i - 1].next = &wr[i];
	}
	from->words[4] = from->words[5] = (uint64_t)round;
	return ibv_post_send(from->initiator, wr, &bad) ? 1 : poll_all(5);
}

static int build(struct end *from, struct end *to, int round)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(from->initiator);

	from->words[8] = (uint64_t)round;
	ibv_wr_start(ex);
	ex->wr_id = 0x1000;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, to->mr->rkey, (uintptr_t)&to->words[40]);
	ibv_wr_set_xrc_srqn(ex, to->srqn);
	ibv_wr_set_sge(ex, from->mr->lkey, (uintptr_t)&from->words[8], 8);
	ex->wr_id = 0x1001;
	ibv_wr_atomic_fetch_add(ex, to->mr->rkey, (uintptr_t)&to->words[41], 2);
	ibv_wr_set_xrc_srqn(ex, to->srqn);
	ibv_wr_set_sge(ex, from->mr->lkey, (uintptr_t)&from->words[9], 8);
	return ibv_wr_complete(ex) ? 1 : poll_all(2);
}

static int destroy(struct end *e)
{
	return ibv_destroy_qp(e->initiator) + ibv_destroy_qp(e->target) + ibv_dereg_mr(e->mr) +
	       ibv_destroy_srq(e->srq) + ibv_dealloc_pd(e->pd);
}

int main(int argc, char **argv)
{
	struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_device **list = ibv_get_device_list(NULL);
	int rounds = argc > 1 ? atoi(argv[1]) : 20, wrong = 0;

	w.context = check(list && list[0] ? ibv_open_device(list[0]) : NULL, "no device");
	w.xrcd = check(ibv_open_xrcd(w.context, &xrcd), "ibv_open_xrcd");
	w.cq = check(ibv_create_cq(w.context, 64, NULL, NULL, 0), "ibv_create_cq");
	for (int i = 0; i < ENDS; i++)
		create(&ends[i], i);
	for (int i = 0; i < ENDS; i++) {
		connect_to(ends[i].target, ends[i].initiator);
		connect_to(ends[i].initiator, ends[i].target);
	}
	for (int round = 1; round <= rounds; round++) {
		wrong += post_list(&ends[0], &ends[round % ENDS], round);
		wrong += build(&ends[1], &ends[round / 2 % ENDS], round);
		for (int i = 0; i < ENDS; i++)
			for (int k = 0; k < WORDS; k++)
				printf("%llx%c", (unsigned long long)ends[i].words[k],
				       k + 1 < WORDS ? ' ' : '\n');
	}
	for (int i = 0; i < ENDS; i++)
		wrong += destroy(&ends[i]);
	wrong += ibv_destroy_cq(w.cq) + ibv_close_xrcd(w.xrcd);
	printf("%d wrong\n", wrong);
	return wrong > 0;
}
