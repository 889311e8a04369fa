/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * steal.c: work stealing with an order that is left out.
 *
 * Rank 0 has the work.  A thief writes into rank 0's memory how often it has asked;
 * rank 0 answers with two writes into the thief's: the stolen items with their
 * amount, and then where they begin, which is what the thief waits for.
 *
 *   steal fenced|racing [ROUNDS]
 *
 * fenced: both on one queue pair, which keeps their order.  racing: the second on a
 * queue pair of its own, and nobody waits for the first: the thief may see where
 * the work begins before it sees how much there is.  In verbs terms that is the
 * upc_fence which SReplay, section 7.1, takes out of the unbalanced tree search.
 * The answer is right if the thieves' items are those that rank 0 gave away.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgas/internal.h"

#define ITEMS   8192 /* of a steal, at the most */
#define WAITING UINT64_MAX

/* In the thief's memory; written by rank 0, but for `begin` between two steals. */
struct loot {
	uint64_t begin;
	uint64_t items[ITEMS];
	uint64_t amount; /* behind the items, with which it comes */
};

struct shared {
	struct loot loot;
	uint64_t asked[PGAS_MAX_RANKS]; /* of rank 0: by thief, how often */
	uint64_t given[PGAS_MAX_RANKS]; /* of rank 0: by thief, the sum of what it was given */
	uint32_t second[PGAS_MAX_RANKS]; /* by peer: the number of its second queue pair */
};

static struct shared *shared;
static struct loot *outgoing;
static uint64_t *flag;
static struct ibv_qp *second[PGAS_MAX_RANKS];
static bool racing;

/* ------------------------------------------------- the second queue pairs */

static void make_second(int peer)
{
	struct ibv_qp_init_attr init = {.send_cq = pgas.cq,
					.recv_cq = pgas.cq,
					.cap = {.max_send_wr = 64,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	uint32_t number;

	second[peer] = ibv_create_qp(pgas.pd, &init);
	if (!second[peer] ||
	    ibv_modify_qp(second[peer], &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		pgas_fail("cannot make a second queue pair");
	number = second[peer]->qp_num;
	pgas_put(peer, &shared->second[pgas.rank], &number, sizeof(number));
}

/* By the same path as the first. */
static void connect_second(int peer)
{
	struct ibv_qp_attr receive, send = {.qp_state = IBV_QPS_RTS,
					    .timeout = 20,
					    .retry_cnt = 7,
					    .rnr_retry = 7,
					    .max_rd_atomic = 1};
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(pgas.peers[peer].qp, &receive, IBV_QP_AV | IBV_QP_PATH_MTU, &init))
		pgas_fail("cannot query a queue pair");
	receive.qp_state = IBV_QPS_RTR;
	receive.dest_qp_num = *(volatile uint32_t *)&shared->second[peer];
	receive.rq_psn = 0;
	receive.max_dest_rd_atomic = 1;
	receive.min_rnr_timer = 12;
	if (ibv_modify_qp(second[peer], &receive,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(second[peer], &send,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		pgas_fail("cannot connect a second queue pair");
}

static void connect_all(void)
{
	for (int i = 0; i < pgas.ranks; i++)
		if ((i == 0) != (pgas.rank == 0))
			make_second(i);
	pgas_barrier();
	for (int i = 0; i < pgas.ranks; i++)
		if (second[i])
			connect_second(i);
	pgas_barrier();
}

/* ------------------------------------------------------------------- rank 0 */

static void put_on(struct ibv_qp *qp, int thief, void *to, void *from, size_t bytes)
{
	struct pgas_peer *peer = &pgas.peers[thief];
	struct ibv_sge sge = {.addr = (uintptr_t)from,
			      .length = (uint32_t)bytes,
			      .lkey = pgas.private.mr->lkey};
	struct ibv_send_wr *bad,
	    wr = {.wr_id = (uint64_t)thief,
		  .sg_list = &sge,
		  .num_sge = 1,
		  .opcode = IBV_WR_RDMA_WRITE,
		  .send_flags = IBV_SEND_SIGNALED,
		  .wr.rdma = {.remote_addr =
				  peer->base + (uint64_t)((char *)to - pgas.shared.base),
			      .rkey = peer->rkey}};

	if (ibv_post_send(qp, &wr, &bad))
		pgas_fail("cannot post to rank %d", thief);
	peer->posted++;
}

static void give_work(int thief, uint64_t round)
{
	uint64_t amount = ITEMS - (round * 37 + (uint64_t)thief) % (ITEMS / 2);

	for (uint64_t i = 0; i < amount; i++) {
		outgoing->items[i] = round * 1000003 + i;
		shared->given[thief] += outgoing->items[i];
	}
	outgoing->amount = amount;
	*flag = round;
	put_on(pgas.peers[thief].qp, thief, shared->loot.items, outgoing->items,
	       sizeof(*outgoing) - offsetof(struct loot, items)); /* the work */
	put_on(racing ? second[thief] : pgas.peers[thief].qp, thief, &shared->loot.begin, flag,
	       sizeof(*flag)); /* where it begins */
	pgas_quiet();
}

static void serve(uint64_t rounds)
{
	uint64_t served[PGAS_MAX_RANKS] = {0}, left = rounds * (uint64_t)(pgas.ranks - 1);
	struct pgas_patience patience = {0};

	while (left) {
		for (int thief = 1; thief < pgas.ranks; thief++) {
			if (pgas_load(&shared->asked[thief]) == served[thief])
				continue;
			give_work(thief, served[thief]++);
			left--;
		}
		pgas_relax(&patience);
	}
}

/* ------------------------------------------------------------------ thieves */

static uint64_t steal(uint64_t round)
{
	struct loot *loot = &shared->loot;
	struct pgas_patience patience = {0};
	uint64_t asked = round + 1, amount, sum = 0;

	pgas_store(&loot->begin, WAITING);
	pgas_put(0, &shared->asked[pgas.rank], &asked, sizeof(asked));
	while (pgas_load(&loot->begin) == WAITING)
		pgas_relax(&patience);
	amount = pgas_load(&loot->amount); /* what was stolen */
	for (uint64_t i = 0; i < amount; i++)
		sum += loot->items[i];
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t rounds, sum = 0, given = 0;
	bool right = true;

	if (argc < 2 || (strcmp(argv[1], "fenced") && strcmp(argv[1], "racing"))) {
		fprintf(stderr, "usage: steal fenced|racing [ROUNDS]\n");
		return 2;
	}
	racing = !strcmp(argv[1], "racing");
	rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 20;
	pgas_start(sizeof(*shared) + 65536, sizeof(*outgoing) + 65536);
	shared = pgas_shared(sizeof(*shared));
	outgoing = pgas_private(sizeof(*outgoing));
	flag = pgas_private(sizeof(*flag));
	connect_all();
	if (pgas.rank == 0)
		serve(rounds);
	else
		for (uint64_t round = 0; round < rounds; round++)
			sum += steal(round);
	pgas_barrier();
	if (pgas.rank != 0) {
		pgas_get(0, &given, &shared->given[pgas.rank], sizeof(given));
		right = sum == given;
	}
	printf("steal %s, %d ranks, %llu rounds: %s\n", argv[1], pgas.ranks,
	       (unsigned long long)rounds, right ? "right" : "wrong");
	pgas_barrier();
	for (int i = 0; i < pgas.ranks; i++)
		if (second[i])
			ibv_destroy_qp(second[i]);
	return pgas_end(right);
}
