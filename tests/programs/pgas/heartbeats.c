/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heartbeats.c: two ranks replicate a log, and a thread of each READs how often the other one's heart beats.
 *
 *   heartbeats [ENTRIES]
 *
 * The leader writes entries into the other one's log, which looks for each of them in its memory, and says now and then how far
 * it is. Then the other one leads, behind a loop in which it clears its log.
 */
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#include "pgas/internal.h"

#define LOG 256
#define PACE 16 /* entries that are answered at once */

struct entry {
	uint64_t number, term, words[5], sum;
};

struct state {
	struct entry log[LOG];
	uint64_t committed, beats;
};

static struct state *state;
static struct entry *sent;
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static uint64_t *seen; /* the other one's beats */
static uint64_t applied;
static _Atomic bool stops;

static uint64_t sum_of(const struct entry *e)
{
	uint64_t sum = e->number ^ e->term;

	for (int i = 0; i < 5; i++)
		sum = sum * 0x100000001b3 + e->words[i];
	return sum;
}

static void read_beats(void)
{
	struct ibv_sge sge = {(uintptr_t)seen, sizeof(*seen), pgas.private.mr->lkey};
	const struct pgas_peer *peer = &pgas.peers[1 - pgas.rank];
	struct ibv_send_wr *bad, wr = {
				     .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = peer->base + ((uintptr_t)&state->beats - (uintptr_t)pgas.shared.base);
	wr.wr.rdma.rkey = peer->rkey;
	if (ibv_post_send(qp, &wr, &bad))
		pgas_fail("cannot post a READ: %m");
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	if (wc.status != IBV_WC_SUCCESS)
		pgas_fail("a READ failed: %s", ibv_wc_status_str(wc.status));
}

static void *beat(void *argument)
{
	while (!stops) {
		read_beats();
		__atomic_fetch_add(&state->beats, 1, __ATOMIC_RELAXED);
		usleep(200);
	}
	return NULL;
}

static void lead(uint64_t term, uint64_t from, uint64_t end)
{
	for (uint64_t n = from; n < end; n++) {
		struct entry *e = &sent[n % LOG];

		while (n >= pgas_load(&state->committed) + LOG / 2)
			;
		*e = (struct entry){.number = n, .term = term, .words = {n * n, term << 40, n ^ 0x5a5a, ~n, 7}};
		e->sum = sum_of(e);
		pgas_start_put(1 - pgas.rank, &state->log[n % LOG], e, sizeof(*e));
		if (n % PACE == 0)
			pgas_quiet();
	}
	pgas_quiet();
	while (pgas_load(&state->committed) < end)
		;
}

static void follow(uint64_t from, uint64_t end)
{
	uint64_t *committed = &sent[0].number;

	for (uint64_t n = from; n < end; n++) {
		const struct entry *e = &state->log[n % LOG];
		struct entry found;

		do {
			while (pgas_load(&e->number) != n)
				;
			found = *e;
		} while (found.sum != sum_of(&found));
		applied = applied * 31 + found.sum;
		if (n % PACE && n + 1 < end)
			continue;
		*committed = n + 1;
		pgas_put(1 - pgas.rank, &state->committed, committed, sizeof(*committed));
	}
}

/* Behind it nothing looks as if it had come.  Other ranks learn of events in the middle of this loop. */
static void clear_log(void)
{
	for (int i = 0; i < LOG; i++)
		pgas_store(&state->log[i].number, UINT64_MAX);
}

static void connect_heart(void)
{
	struct ibv_qp_init_attr attr = {.cap = {4, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qps[2] = {NULL};

	cq = attr.send_cq = attr.recv_cq = ibv_create_cq(pgas.device, 4, NULL, NULL, 0);
	qp = ibv_create_qp(pgas.pd, &attr);
	if (!qp)
		pgas_fail("cannot create a queue pair: %m");
	pgas_prepare_queue_pair(qp);
	qps[1 - pgas.rank] = qp;
	pgas_connect_more(qps);
}

int main(int argc, char **argv)
{
	uint64_t entries = (uint64_t)pgas_argument(argc, argv, 1, 1000, PACE, "heartbeats [ENTRIES]");
	pthread_t heart;
	bool right;

	pgas_start(1 << 16, (1 << 16) + LOG * sizeof(*sent));
	if (pgas.ranks != 2)
		pgas_fail("it takes two ranks");
	state = pgas_shared(sizeof(*state));
	sent = pgas_private(LOG * sizeof(*sent));
	seen = pgas_private(sizeof(*seen));
	connect_heart();
	clear_log();
	pgas_barrier();
	if (pthread_create(&heart, NULL, beat, NULL))
		pgas_fail("cannot create a thread");
	for (uint64_t term = 0; term < 2; term++) {
		if (term % 2 == (uint64_t)pgas.rank)
			lead(term, term * entries, (term + 1) * entries);
		else
			follow(term * entries, (term + 1) * entries);
		pgas_barrier();
		clear_log();
		state->committed = (term + 1) * entries;
		pgas_barrier();
	}
	stops = true;
	pthread_join(heart, NULL);
	pgas_barrier();
	right = pgas_result(*seen, "rank %d: %016llx", pgas.rank, (unsigned long long)applied);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	return pgas_end(right);
}
