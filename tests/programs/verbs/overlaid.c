/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * overlaid.c: a message lands in a receive's memory, a READ's bytes land over it, and only then is the
 * receive's completion polled.
 *
 *   overlaid
 *
 * libfabric's fi_rma_bw does so by chance at its end.  Then two READs bring different words into the same memory, and
 * one completion says so of both, as librpma's flush does it.  At last a message and a READ's bytes are loaded before
 * their completions are polled, from a page that is partly in an exposed region, and a READ brings bytes into one that is
 * wholly in one.  A queue pair connected to itself;
 * prints what the memory holds.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "loopback_qp.h"

#define SIZE   64u
#define ROUNDS 4
#define ACCESS (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static char received[SIZE], message[SIZE], remote[SIZE];
static char words[4096] __attribute__((aligned(4096))); /* peers write them: they are exposed memory */

static char page[4096] __attribute__((aligned(4096)));  /* wholly so */

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

static void start(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge sge, const struct ibv_mr *from)
{
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (from) {
		wr.wr.rdma.remote_addr = (uintptr_t)from->addr;
		wr.wr.rdma.rkey = from->rkey;
	}
	check(ibv_post_send(qp, &wr, &bad) ? NULL : qp, "ibv_post_send");
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge sge, const struct ibv_mr *from)
{
	start(qp, opcode, sge, from);
	wait_for(qp->send_cq);
}

/* READs the first words of `of` into the same memory, one after the other. */
static void read_over(struct ibv_qp *qp, const struct ibv_mr *to, const struct ibv_mr *of)
{
	struct ibv_sge word = {(uintptr_t)to->addr, 8, to->lkey};
	struct ibv_send_wr wr[2], *bad;

	for (int i = 0; i < 2; i++)
		wr[i] = (struct ibv_send_wr){.next = i ? NULL : &wr[1],
					     .sg_list = &word,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_READ,
					     .send_flags = i ? IBV_SEND_SIGNALED : 0,
					     .wr.rdma = {(uintptr_t)of->addr + 8 * (uint64_t)i, of->rkey}};
	check(ibv_post_send(qp, wr, &bad) ? NULL : qp, "ibv_post_send");
	wait_for(qp->send_cq);
}

/* Both have landed when the first completion is polled, and a load of any byte of the page finds both. */
static void load_early(struct ibv_qp *qp, const struct ibv_mr *to, const struct ibv_mr *of, const struct ibv_mr *from)
{
	char *message_to = to->addr, *read_to = message_to + SIZE / 2;
	struct ibv_sge whole = {(uintptr_t)message_to, SIZE / 2, to->lkey}, part = {(uintptr_t)read_to, SIZE / 2, to->lkey};
	struct ibv_recv_wr wr = {.sg_list = &whole, .num_sge = 1}, *bad;

	memset(message, 'm', SIZE);
	memset(remote, 'r', SIZE);
	check(ibv_post_recv(qp, &wr, &bad) ? NULL : qp, "ibv_post_recv");
	start(qp, IBV_WR_RDMA_READ, part, from);
	start(qp, IBV_WR_SEND, (struct ibv_sge){(uintptr_t)message, SIZE / 2, of->lkey}, NULL);
	printf("%.*s\n", (int)SIZE, message_to);
	wait_for(qp->recv_cq);
	wait_for(qp->send_cq);
	wait_for(qp->send_cq);
	printf("%.*s\n", (int)SIZE, message_to);
}

/* What a READ brings into exposed memory is not in its completion: a load finds it. */
static void read_into_exposed(struct ibv_qp *qp, struct ibv_pd *pd, const struct ibv_mr *from)
{
	const struct ibv_mr *to = check(ibv_reg_mr(pd, page, sizeof(page), ACCESS | IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");

	memset(remote, 'e', SIZE);
	post(qp, IBV_WR_RDMA_READ, (struct ibv_sge){(uintptr_t)page, SIZE, to->lkey}, from);
	printf("%.*s\n", (int)SIZE, page);
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
	struct ibv_mr *exposed = registered(pd, words, ACCESS | IBV_ACCESS_LOCAL_WRITE);

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr state = loopback_attr(s, qp->qp_num, ACCESS);

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
	memset(message, '1', 8);
	memset(message + 8, '2', 8);
	post(qp, IBV_WR_RDMA_WRITE, (struct ibv_sge){(uintptr_t)message, 16, of->lkey}, exposed);
	read_over(qp, to, exposed);
	printf("%.8s\n", received);
	load_early(qp, registered(pd, words + 2048, IBV_ACCESS_LOCAL_WRITE), of, from);
	read_into_exposed(qp, pd, from);
	return 0;
}
