/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reregisters.c: threads register memory which the next rank READs, then WRITEs; then they deregister it.
 *
 *   reregisters [ROUNDS [THREADS]]
 *
 * What the owner has in that memory afterwards it finds when it deregisters it, or later, as it does not load from there before.
 */
#include <pthread.h>
#include <stdlib.h>

#include "pgas/internal.h"

#define MOST_THREADS 8
#define WORDS        1024

/* Where the region of this round is; from the rank before. */
struct card {
	uint64_t address, rkey, round;
};

struct state {
	struct card card[MOST_THREADS];
	uint64_t done[MOST_THREADS]; /* the round that the next rank is done with */
};

struct thread {
	pthread_t id;
	int number;
	struct ibv_cq *cq;
	struct ibv_qp *qps[PGAS_MAX_RANKS];
	uint64_t *region;  /* what is registered for a round */
	uint64_t *fetched; /* private: READ, and WRITTEN back */
	struct card *sent;
	uint64_t *sent_done;
	uint64_t sum, expected;
};

static struct state *state;
static uint64_t rounds;

static uint64_t initial(int rank, int thread, uint64_t round, int word)
{
	return ((uint64_t)rank << 48 | (uint64_t)thread << 40 | round << 20 | (uint64_t)word) * 0x9e3779b97f4a7c15;
}

static void transfer(struct thread *t, int rank, enum ibv_wr_opcode opcode, void *local, size_t bytes, uint64_t remote,
		     uint32_t rkey)
{
	const struct ibv_sge sge = {(uintptr_t)local, (uint32_t)bytes, pgas.private.mr->lkey};

	pgas_transfer(t->qps[rank], t->cq, opcode, &sge, remote, rkey);
}

/* Into the shared memory of that rank. */
static void put(struct thread *t, int rank, void *shared, void *local, size_t bytes)
{
	const struct pgas_peer *peer = &pgas.peers[rank];

	transfer(t, rank, IBV_WR_RDMA_WRITE, local, bytes, peer->base + ((uintptr_t)shared - (uintptr_t)pgas.shared.base), peer->rkey);
}

static struct ibv_mr *offer(struct thread *t, uint64_t round)
{
	struct ibv_mr *mr;

	for (int i = 0; i < WORDS; i++)
		t->region[i] = initial(pgas.rank, t->number, round, i);
	mr = ibv_reg_mr(pgas.pd, t->region, WORDS * sizeof(uint64_t),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!mr)
		pgas_fail("cannot register: %m");
	*t->sent = (struct card){(uintptr_t)t->region, mr->rkey, round};
	put(t, pgas_next(), &state->card[t->number], t->sent, sizeof(*t->sent));
	return mr;
}

/* What the rank before has registered is changed. */
static void serve(struct thread *t, uint64_t round)
{
	const struct card *card = &state->card[t->number];
	const size_t bytes = WORDS * sizeof(uint64_t);

	pgas_wait_for(&card->round, round);
	transfer(t, pgas_previous(), IBV_WR_RDMA_READ, t->fetched, bytes, card->address, (uint32_t)card->rkey);
	for (int i = 0; i < WORDS; i++)
		t->fetched[i] = t->fetched[i] * 3 + round;
	transfer(t, pgas_previous(), IBV_WR_RDMA_WRITE, t->fetched, bytes, card->address, (uint32_t)card->rkey);
	*t->sent_done = round;
	put(t, pgas_previous(), &state->done[t->number], t->sent_done, sizeof(*t->sent_done));
}

static void *work(void *argument)
{
	struct thread *t = argument;

	for (uint64_t round = 1; round <= rounds; round++) {
		struct ibv_mr *mr = offer(t, round);

		serve(t, round);
		pgas_wait_for(&state->done[t->number], round);
		if (ibv_dereg_mr(mr))
			pgas_fail("cannot deregister: %m");
		for (int i = 0; i < WORDS; i++) {
			t->sum = (t->sum ^ t->region[i]) * 0x100000001b3;
			t->expected = (t->expected ^ (initial(pgas.rank, t->number, round, i) * 3 + round)) * 0x100000001b3;
		}
	}
	return NULL;
}

static void prepare(struct thread *t, int number)
{
	struct ibv_qp_init_attr attr = {.cap = {8, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	t->number = number;
	t->cq = attr.send_cq = attr.recv_cq = ibv_create_cq(pgas.device, 16, NULL, NULL, 0);
	if (!t->cq)
		pgas_fail("cannot create a completion queue: %m");
	pgas_make_queue_pairs(t->qps, &attr);
	t->region = aligned_alloc(4096, WORDS * sizeof(uint64_t));
	if (!t->region)
		pgas_fail("no memory left");
	t->fetched = pgas_private(WORDS * sizeof(uint64_t));
	t->sent = pgas_private(sizeof(*t->sent));
	t->sent_done = pgas_private(sizeof(*t->sent_done));
}

static void clean_up(struct thread *t)
{
	for (int i = 0; i < pgas.ranks; i++)
		if (t->qps[i])
			ibv_destroy_qp(t->qps[i]);
	ibv_destroy_cq(t->cq);
	free(t->region);
}

int main(int argc, char **argv)
{
	static const char usage[] = "reregisters [ROUNDS [THREADS]]";
	struct thread threads[MOST_THREADS] = {0};
	uint64_t sum = 0, expected = 0;
	int n;

	rounds = (uint64_t)pgas_argument(argc, argv, 1, 10, 1, usage);
	n = (int)pgas_argument(argc, argv, 2, 2, 1, usage);
	if (n > MOST_THREADS)
		pgas_fail("at most %d threads", MOST_THREADS);
	pgas_start(1 << 16, 1 << 18);
	state = pgas_shared(sizeof(*state));
	for (int i = 0; i < n; i++)
		prepare(&threads[i], i);
	pgas_barrier();
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i].id, NULL, work, &threads[i]))
			pgas_fail("cannot create a thread");
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i].id, NULL);
		sum += threads[i].sum;
		expected += threads[i].expected;
	}
	pgas_barrier();
	for (int i = 0; i < n; i++)
		clean_up(&threads[i]);
	return pgas_end(pgas_result(sum == expected, "rank %d: %016llx", pgas.rank, (unsigned long long)sum));
}
