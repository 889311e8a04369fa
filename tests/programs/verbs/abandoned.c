/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * abandoned.c: messages land in receives whose completions the end of the queue pair takes away: they are in memory all the
 * same.
 *
 *   abandoned
 *
 * A queue pair connected to itself, with receives of its own or shared ones, is reset or destroyed.  Then another one gets
 * messages, by the next of the shared receives, or by its own ones.  Prints what the receives' memory holds each time.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "loopback_qp.h"

#define SIZE     600u
#define RECEIVES 4
#define MESSAGES 2 /* come into the first ones */

static char received[RECEIVES][SIZE], message[SIZE];

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *to, *of;
} w;

static void wait_for(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	check(n == 1 && wc.status == IBV_WC_SUCCESS ? cq : NULL, "ibv_poll_cq");
}

static struct ibv_cq *make_cq(void)
{
	return check(ibv_create_cq(w.context, 8, NULL, NULL, 0), "ibv_create_cq");
}

static struct ibv_qp *make_qp(struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = make_cq(),
	    .recv_cq = make_cq(),
	    .srq = srq,
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = check(ibv_create_qp(w.pd, &attr), "ibv_create_qp");

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr state = loopback_attr(s, qp->qp_num, 0);

		check(ibv_modify_qp(qp, &state, loopback_mask(s)) ? NULL : qp, "ibv_modify_qp");
	}
	return qp;
}

static void post_receive(struct ibv_qp *qp, int n)
{
	struct ibv_sge sge = {(uintptr_t)received[n], SIZE, w.to->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)n, .sg_list = &sge, .num_sge = 1}, *bad;

	check((qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)) ? NULL : qp, "a receive");
}

/* As its completion says, the peer has it. */
static void send_message(struct ibv_qp *qp)
{
	static char c = 'a';
	struct ibv_sge sge = {(uintptr_t)message, SIZE, w.of->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	memset(message, c++, SIZE);
	check(ibv_post_send(qp, &wr, &bad) ? NULL : qp, "ibv_post_send");
	wait_for(qp->send_cq);
}

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE) ? NULL : qp, "a reset");
}

static void show(bool shares, const char *what)
{
	printf("%s receives, %s:", shares ? "shared" : "own", what);
	for (int i = 0; i < RECEIVES; i++)
		printf(" %c%c", received[i][0], received[i][SIZE - 1]);
	printf("\n");
}

static void abandon(bool shares, bool resets)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = RECEIVES, .max_sge = 1}};
	struct ibv_srq *srq = shares ? check(ibv_create_srq(w.pd, &attr), "ibv_create_srq") : NULL;
	struct ibv_qp *qp = make_qp(srq), *other = make_qp(srq);

	memset(received, '.', sizeof(received));
	for (int i = 0; i < RECEIVES; i++)
		post_receive(qp, i);
	for (int i = 0; i < MESSAGES; i++)
		send_message(qp);
	if (resets)
		reset(qp);
	else
		check(ibv_destroy_qp(qp) ? NULL : &w, "ibv_destroy_qp");
	show(shares, resets ? "reset" : "destroyed");
	if (!shares)
		post_receive(other, MESSAGES);
	send_message(other);
	wait_for(other->recv_cq);
	show(shares, "went on");
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	w.context = check(list && list[0] ? ibv_open_device(list[0]) : NULL, "a device");
	w.pd = check(ibv_alloc_pd(w.context), "ibv_alloc_pd");
	w.to = check(ibv_reg_mr(w.pd, received, sizeof(received), IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	w.of = check(ibv_reg_mr(w.pd, message, sizeof(message), 0), "ibv_reg_mr");
	for (int i = 0; i < 4; i++)
		abandon(i & 1, i & 2);
	return 0;
}
