/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unpolled.c: two ranks find messages in memory before they poll their completions.
 *
 *   unpolled [ROUNDS [MESSAGES]]
 *
 * In each round a rank sends two messages, or so many, to the other one, from what it has received so far.  It polls the first
 * one's completion, and waits for the others by looking at their buffers, which lie on pages of shared memory.
 */
#include "pgas/internal.h"

#define SEND UINT64_MAX /* wr_id */

struct message {
	uint64_t number, round, more[6];
};

static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct message *in, *out;
static uint64_t number, messages; /* so many in a round; there are buffers for two rounds */

static void post_receive(uint64_t buffer)
{
	struct ibv_sge sge = {(uintptr_t)&in[buffer], sizeof(*in), pgas.shared.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = buffer, .sg_list = &sge, .num_sge = 1};

	if (ibv_post_recv(qp, &wr, &bad))
		pgas_fail("cannot post a receive: %m");
}

static void send(struct message *m, uint64_t round)
{
	struct ibv_sge sge = {(uintptr_t)m, sizeof(*m), pgas.private.mr->lkey};
	struct ibv_send_wr *bad, wr = {
				     .wr_id = SEND, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	number = number * 6364136223846793005 + 1442695040888963407;
	*m = (struct message){number, round, {number ^ 1, number ^ 2, number ^ 3}};
	if (ibv_post_send(qp, &wr, &bad))
		pgas_fail("cannot post a send: %m");
}

/* One completion; its wr_id. */
static uint64_t next_completion(void)
{
	struct pgas_patience patience = {0};
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		pgas_relax(&patience);
	if (wc.status != IBV_WC_SUCCESS)
		pgas_fail("a completion failed: %s", ibv_wc_status_str(wc.status));
	return wc.wr_id;
}

static void add(const struct message *m)
{
	number = (number ^ m->number) * 0x100000001b3 + m->more[2];
}

static void find(const struct message *m, uint64_t round)
{
	struct pgas_patience patience = {0};

	while (pgas_load(&m->round) != round)
		pgas_relax(&patience);
	add(m);
}

static void do_round(uint64_t round)
{
	const uint64_t first = round % 2 * messages;
	uint64_t sends = 0;

	for (uint64_t i = 0; i < messages; i++)
		send(&out[i], messages * round + i);
	while (next_completion() == SEND)
		sends++;
	add(&in[first]);
	for (uint64_t i = 1; i < messages; i++)
		find(&in[first + i], messages * round + i);
	for (uint64_t left = 2 * messages - 1 - sends; left; left--)
		next_completion();
	for (uint64_t i = 0; i < messages; i++)
		post_receive(first + i);
}

static void set_up(void)
{
	struct ibv_qp_init_attr attr = {.cap = {(uint32_t)messages, 2 * (uint32_t)messages, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qps[2] = {NULL};

	cq = attr.send_cq = attr.recv_cq = ibv_create_cq(pgas.device, 4 * (int)messages, NULL, NULL, 0);
	qp = ibv_create_qp(pgas.pd, &attr);
	if (!qp)
		pgas_fail("cannot create a queue pair: %m");
	in = pgas_shared(2 * messages * sizeof(*in));
	out = pgas_private(messages * sizeof(*out));
	pgas_prepare_queue_pair(qp);
	for (uint64_t b = 0; b < 2 * messages; b++)
		post_receive(b);
	qps[1 - pgas.rank] = qp;
	pgas_connect_more(qps);
}

int main(int argc, char **argv)
{
	static const char usage[] = "unpolled [ROUNDS [MESSAGES]]";
	long rounds = pgas_argument(argc, argv, 1, 200, 1, usage);
	bool right;

	messages = (uint64_t)pgas_argument(argc, argv, 2, 2, 2, usage);
	pgas_start((1 << 16) + 2 * messages * sizeof(*in), (1 << 12) + messages * sizeof(*out));
	if (pgas.ranks != 2)
		pgas_fail("it takes two ranks");
	set_up();
	pgas_barrier();
	number = (uint64_t)pgas.rank + 1;
	for (long round = 0; round < rounds; round++)
		do_round((uint64_t)round);
	pgas_barrier();
	right = pgas_result(true, "rank %d: %ld rounds, %016llx", pgas.rank, rounds, (unsigned long long)number);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	return pgas_end(right);
}
