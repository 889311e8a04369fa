/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * steal.c: work stealing with an order that is left out.
 *
 * Rank 0 has the work.  A thief writes into rank 0's memory how often it has asked;
 * rank 0 answers with two writes into the thief's: the stolen items with their
 * amount, and then where they begin, which is what the thief waits for.  A thief
 * asks before it works on what it stole last, and makes room for the answer's
 * notice (the immediate data) when it begins to wait: what comes before that is
 * not received, and sent again.
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
#define STEPS   64 /* of the work that an item is */

/* Queue pairs between rank 0 and a thief. */
enum lane {
	FIRST,
	SECOND,
	LANES,
};

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
	uint32_t number[LANES][PGAS_MAX_RANKS]; /* by peer: of its queue pairs */
};

static struct shared *shared;
static struct loot *outgoing;
static uint64_t *flag;
static struct ibv_qp *lanes[LANES][PGAS_MAX_RANKS];
static struct ibv_cq *notices;
static bool racing;

/* ------------------------------------------------------------ queue pairs */

static void make(enum lane lane, int peer)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = pgas.cq,
	    .recv_cq = notices,
	    .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp *qp = ibv_create_qp(pgas.pd, &init);

	if (!qp ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		pgas_fail("cannot make a queue pair");
	lanes[lane][peer] = qp;
	pgas_put(peer, &shared->number[lane][pgas.rank], &qp->qp_num, sizeof(qp->qp_num));
}

/* By the same path as the runtime's. */
static void connect_to(enum lane lane, int peer)
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
	receive.dest_qp_num = *(volatile uint32_t *)&shared->number[lane][peer];
	receive.rq_psn = 0;
	receive.max_dest_rd_atomic = 1;
	receive.min_rnr_timer = 12;
	if (ibv_modify_qp(lanes[lane][peer], &receive,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(lanes[lane][peer], &send,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		pgas_fail("cannot connect a queue pair");
}

static void for_each_lane(void (*what)(enum lane lane, int peer))
{
	for (int i = 0; i < pgas.ranks; i++)
		for (enum lane lane = 0; lane < LANES; lane++)
			if ((i == 0) != (pgas.rank == 0))
				what(lane, i);
}

static void destroy(enum lane lane, int peer)
{
	ibv_destroy_qp(lanes[lane][peer]);
}

static void connect_all(void)
{
	notices = ibv_create_cq(pgas.device, 256, NULL, NULL, 0);
	if (!notices)
		pgas_fail("cannot make a completion queue");
	for_each_lane(make);
	pgas_barrier();
	for_each_lane(connect_to);
	pgas_barrier();
}

/* ------------------------------------------------------------------- rank 0 */

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

static void prepare(struct request *r, int thief, void *to, void *from, size_t bytes)
{
	const struct pgas_peer *peer = &pgas.peers[thief];

	r->sge = (struct ibv_sge){
	    .addr = (uintptr_t)from, .length = (uint32_t)bytes, .lkey = pgas.private.mr->lkey};
	r->wr = (struct ibv_send_wr){
	    .wr_id = (uint64_t)thief,
	    .sg_list = &r->sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.rdma = {.remote_addr = peer->base + (uint64_t)((char *)to - pgas.shared.base),
			.rkey = peer->rkey}};
}

static void fill(uint64_t round, int thief)
{
	outgoing->amount = ITEMS - (round * 37 + (uint64_t)thief) % (ITEMS / 2);
	for (uint64_t i = 0; i < outgoing->amount; i++) {
		outgoing->items[i] = round * 1000003 + i;
		shared->given[thief] += outgoing->items[i];
	}
	*flag = round;
}

static void give_work(int thief, uint64_t round)
{
	struct ibv_qp *first = lanes[FIRST][thief], *second = lanes[SECOND][thief];
	struct request work, begin;
	struct ibv_send_wr *bad;
	int failed;

	fill(round, thief);
	prepare(&work, thief, shared->loot.items, outgoing->items,
		sizeof(*outgoing) - offsetof(struct loot, items));
	work.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	prepare(&begin, thief, &shared->loot.begin, flag, sizeof(*flag));
	pgas.peers[thief].posted += 2;
	failed = ibv_post_send(first, &work.wr, &bad);
	failed |= ibv_post_send(racing ? second : first, &begin.wr, &bad);
	if (failed)
		pgas_fail("cannot post to rank %d", thief);
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

static void ask(uint64_t round)
{
	uint64_t asked = round + 1;

	pgas_store(&shared->loot.begin, WAITING);
	pgas_put(0, &shared->asked[pgas.rank], &asked, sizeof(asked));
}

/* For one more answer; what earlier ones brought is only counted. */
static void make_room(void)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 0};
	struct ibv_wc wc;

	while (ibv_poll_cq(notices, 1, &wc) > 0)
		;
	if (ibv_post_recv(lanes[FIRST][0], &wr, &bad))
		pgas_fail("cannot post a receive");
}

/* Takes it out; how many there are. */
static uint64_t receive(uint64_t items[])
{
	struct loot *loot = &shared->loot;
	struct pgas_patience patience = {0};
	uint64_t amount;

	make_room();
	while (__atomic_load_n(&loot->begin, __ATOMIC_ACQUIRE) == WAITING)
		pgas_relax(&patience);
	amount = __atomic_load_n(&loot->amount, __ATOMIC_ACQUIRE);
	/* Not memcpy, whose loads depend on the CPU. */
	for (uint64_t i = 0; i < amount; i++)
		items[i] = __atomic_load_n(&loot->items[i], __ATOMIC_RELAXED);
	return amount;
}

/* Their sum; and a walk from each, which takes its time. */
static uint64_t work(const uint64_t items[], uint64_t amount, uint64_t *trace)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < amount; i++) {
		uint64_t place = items[i];

		sum += place;
		for (int step = 0; step < STEPS; step++)
			*trace ^= pgas_random(&place);
	}
	return sum;
}

static uint64_t steal_all(uint64_t rounds, uint64_t *trace)
{
	static uint64_t items[ITEMS];
	uint64_t amount = 0, sum = 0;

	for (uint64_t round = 0; round < rounds; round++) {
		ask(round);
		sum += work(items, amount, trace);
		amount = receive(items);
	}
	return sum + work(items, amount, trace);
}

int main(int argc, char **argv)
{
	uint64_t rounds, sum = 0, given = 0, trace = 0;
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
		sum = steal_all(rounds, &trace);
	pgas_barrier();
	if (pgas.rank != 0) {
		pgas_get(0, &given, &shared->given[pgas.rank], sizeof(given));
		right = sum == given;
	}
	pgas_result(right, "steal %s, %d ranks, %llu rounds, walked to %016llx", argv[1],
		    pgas.ranks, (unsigned long long)rounds, (unsigned long long)trace);
	pgas_barrier();
	for_each_lane(destroy);
	ibv_destroy_cq(notices);
	return pgas_end(right);
}
