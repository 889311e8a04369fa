/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commutes.c: rank 0 adds up the messages of all others as they come.
 *
 *   commutes region|speaks|wrong|plain [MESSAGES...]
 *
 * Rank r sends as many messages as the r-th number says, or 200.  region: rank 0 says that their order does not matter
 * (sreplay/order.h).  speaks: it prints something behind the first half of them.  wrong: it says so, but what it makes of them
 * depends on their order, and on how often it looked in vain.  plain: it does, and it says nothing.
 */
#include <string.h>

#include "pgas/internal.h"
#include "sreplay/order.h"

#define BUFFERS	 8
#define LENGTH	 256
#define MESSAGES 200
#define SEND	 UINT64_MAX /* wr_id */

struct sender {
	struct ibv_qp *qp;
	uint64_t messages;
	uint64_t *in; /* rank 0: BUFFERS times LENGTH bytes */
};

static struct sender senders[PGAS_MAX_RANKS];
static struct ibv_cq *cq;
static uint64_t *out;

static void post_receive(const struct sender *s, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)s->in + wr_id % BUFFERS * LENGTH, LENGTH, pgas.private.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	if (ibv_post_recv(s->qp, &wr, &bad))
		pgas_fail("cannot post a receive: %m");
}

static void await_send(void)
{
	struct pgas_patience patience = {0};
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		pgas_relax(&patience);
	if (wc.status != IBV_WC_SUCCESS)
		pgas_fail("a completion failed: %s", ibv_wc_status_str(wc.status));
}

static void send(const struct sender *to, uint64_t number)
{
	struct ibv_sge sge = {(uintptr_t)out, LENGTH, pgas.private.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = SEND, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	uint64_t state = number << 8 | (uint64_t)pgas.rank;

	for (size_t i = 0; i < LENGTH / sizeof(*out); i++)
		out[i] = pgas_random(&state);
	if (ibv_post_send(to->qp, &wr, &bad))
		pgas_fail("cannot post a send: %m");
	await_send();
}

static uint64_t sum_of(const uint64_t *message)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < LENGTH / sizeof(*message); i++)
		sum += message[i] * (i + 1);
	return sum;
}

/* What they come to, in the order in which they come if that is to matter. */
static uint64_t receive_all(uint64_t messages, bool in_order, bool speaks)
{
	uint64_t sum = 0, half = messages / 2;
	struct ibv_wc wc[4];

	while (messages) {
		int n = ibv_poll_cq(cq, 4, wc);

		/* Two senders may well come in one order twice; nobody looks in vain as often twice. */
		if (!n && in_order)
			sum = sum * 31 + 1;
		for (int i = 0; i < n; i++) {
			const struct sender *s = &senders[wc[i].wr_id / BUFFERS];

			if (wc[i].status != IBV_WC_SUCCESS)
				pgas_fail("a completion failed: %s", ibv_wc_status_str(wc[i].status));
			sum = (in_order ? sum * 31 : sum) + sum_of(s->in + wc[i].wr_id % BUFFERS * LENGTH / sizeof(*s->in));
			post_receive(s, wc[i].wr_id);
			if (--messages == half && speaks)
				pgas_result(true, "half of them");
		}
	}
	return sum;
}

static struct ibv_qp *make_queue_pair(int rank)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {4, BUFFERS, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct sender *s = &senders[rank];

	s->qp = ibv_create_qp(pgas.pd, &attr);
	if (!s->qp)
		pgas_fail("cannot create a queue pair: %m");
	pgas_prepare_queue_pair(s->qp);
	s->in = pgas_private(BUFFERS * LENGTH);
	for (uint64_t b = 0; !pgas.rank && b < BUFFERS; b++)
		post_receive(s, (uint64_t)rank * BUFFERS + b);
	return s->qp;
}

static uint64_t add_up(const char *how)
{
	const bool plain = !strcmp(how, "plain");
	uint64_t messages = 0, sum;

	for (int r = 1; r < pgas.ranks; r++)
		messages += senders[r].messages;
	if (!plain)
		sreplay_commutative_begin(0);
	sum = receive_all(messages, plain || !strcmp(how, "wrong"), !strcmp(how, "speaks"));
	if (!plain)
		sreplay_commutative_end();
	return sum;
}

int main(int argc, char **argv)
{
	static const char usage[] = "commutes region|speaks|wrong|plain [MESSAGES...]";
	struct ibv_qp *qps[PGAS_MAX_RANKS];
	uint64_t sum = 0;
	bool right;

	if (argc < 2)
		pgas_fail("%s", usage);
	pgas_start(1 << 16, 1 << 18);
	cq = ibv_create_cq(pgas.device, 1024, NULL, NULL, 0);
	out = pgas_private(LENGTH);
	for (int r = 0; r < pgas.ranks; r++)
		qps[r] = make_queue_pair(r);
	for (int r = 1; r < pgas.ranks; r++)
		senders[r].messages = (uint64_t)pgas_argument(argc, argv, r + 1, MESSAGES, 0, usage);
	pgas_connect_more(qps);
	pgas_barrier();
	if (!pgas.rank)
		sum = add_up(argv[1]);
	else
		for (uint64_t n = 0; n < senders[pgas.rank].messages; n++)
			send(&senders[0], n);
	pgas_barrier();
	right = pgas_result(true, "rank %d: %016llx", pgas.rank, (unsigned long long)sum);
	for (int r = 0; r < pgas.ranks; r++)
		ibv_destroy_qp(senders[r].qp);
	ibv_destroy_cq(cq);
	return pgas_end(right);
}
