/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unpolled.c: two ranks find messages in memory before they poll their completions.
 *
 *   unpolled [ROUNDS]
 *
 * In each round a rank sends two messages to the other one, from what it has received so far.  It polls the first one's
 * completion, and waits for the second one by looking at its buffer, which lies on the same page of shared memory.
 */
#include "pgas/internal.h"

#define BUFFERS 4
#define SEND	100 /* wr_id */

struct message {
	uint64_t number, round, more[6];
};

static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct message *in, *out;
static uint64_t number;

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

static void do_round(uint64_t round)
{
	const uint64_t first = 2 * round % BUFFERS, second = first + 1;
	struct pgas_patience patience = {0};
	int sends = 0;

	send(&out[0], 2 * round);
	send(&out[1], 2 * round + 1);
	while (next_completion() == SEND)
		sends++;
	add(&in[first]);
	while (pgas_load(&in[second].round) != 2 * round + 1)
		pgas_relax(&patience);
	add(&in[second]);
	for (int left = 3 - sends; left; left--)
		next_completion();
	post_receive(first);
	post_receive(second);
}

/* As the runtime connects its own. */
static void connect_it(void)
{
	static struct pgas_address mine, all[PGAS_MAX_RANKS];
	const int other = 1 - pgas.rank;
	struct ibv_qp *own = pgas.peers[other].qp;

	pgas_describe(&mine);
	mine.qpn[other] = qp->qp_num;
	pgas_exchange(&mine, all, sizeof(mine));
	pgas.peers[other].qp = qp;
	pgas_reach(other, &all[other]);
	pgas.peers[other].qp = own;
}

static void set_up(void)
{
	struct ibv_qp_init_attr attr = {.cap = {4, BUFFERS, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	cq = attr.send_cq = attr.recv_cq = ibv_create_cq(pgas.device, 16, NULL, NULL, 0);
	qp = ibv_create_qp(pgas.pd, &attr);
	if (!qp)
		pgas_fail("cannot create a queue pair: %m");
	in = pgas_shared(BUFFERS * sizeof(*in));
	out = pgas_private(2 * sizeof(*out));
	pgas_prepare_queue_pair(qp);
	for (uint64_t b = 0; b < BUFFERS; b++)
		post_receive(b);
	connect_it();
}

int main(int argc, char **argv)
{
	static const char usage[] = "unpolled [ROUNDS]";
	long rounds = pgas_argument(argc, argv, 1, 200, 1, usage);
	bool right;

	pgas_start(1 << 16, 1 << 12);
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
