/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/picks.h"

#include "nicclock/picks.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"

#define MAY_LACK_LEAST 4

/* A send or receive queue, as far as completions of it came. */
struct queue {
	uint64_t cq;
	uint32_t qp_num;
	bool receives;
	struct sr_pick_counts counts;
	uint32_t may_lack; /* so many of its last ones could be left out, one behind the other */
	bool is_unfinished; /* it may have completions without an entry */
	uint32_t slot;
};

static struct ibv_context *device; /* there is but one: numbers of queue pairs are unique */
static struct sr_map by_cq, by_queue;
/* Those that may have completions without an entry; each has its unfinished one in the ring, for the daemon. */
static struct queue *unfinished[SR_RING_UNFINISHED];
static uint32_t unfinished_n;

static uint64_t queue_of(const struct ibv_wc *wc)
{
	return (uint64_t)wc->qp_num << 1 | (wc->opcode & IBV_WC_RECV ? 1 : 0);
}

/* NULL: no memory. */
static void *get(struct sr_map *m, uint64_t key, size_t size)
{
	void *p = sr_map_get(m, key), *old;

	if (p)
		return p;
	p = sr_alloc_zeroed(size);
	if (p && sr_map_put(m, key, p, &old)) {
		sr_free(p);
		return NULL;
	}
	return p;
}

/* ------------------------------------------------------------------ entries */

static struct sr_picked_payload payload_of(const struct queue *q, const struct sr_pick_counts *entry)
{
	return (struct sr_picked_payload){
	    .cq = q->cq, .qp_num = q->qp_num, .receives = q->receives, .traced = entry->traced, .untraced = entry->untraced};
}

static void write_entry(const struct queue *q, const struct sr_pick_counts *entry)
{
	const struct sr_picked_payload p = payload_of(q, entry);

	sr_engine_note(&sr_self, SR_REC_PICKED, &p, sizeof(p));
}

static void end_entry(struct queue *q)
{
	struct sr_pick_counts entry;

	if (sr_pick_entry(&q->counts, &entry))
		write_entry(q, &entry);
}

void sr_picks_flush(void)
{
	while (unfinished_n) {
		struct queue *q = unfinished[--unfinished_n];

		end_entry(q);
		sr_ring_set_unfinished(&sr_self.ring, unfinished_n, 0, NULL, 0);
		q->is_unfinished = false;
	}
}

/* If the process is killed, the daemon writes its entry. */
static void keep_unfinished(struct queue *q)
{
	struct sr_picked_payload p;

	if (!q->is_unfinished) {
		if (unfinished_n == SR_RING_UNFINISHED)
			sr_picks_flush();
		q->is_unfinished = true;
		q->slot = unfinished_n;
		unfinished[unfinished_n++] = q;
	}
	p = payload_of(q, &q->counts);
	sr_ring_set_unfinished(&sr_self.ring, q->slot, SR_REC_PICKED, &p, sizeof(p));
}

void sr_picks_stop(void)
{
	if (sr_picks_on)
		sr_picks_flush();
	sr_picks_on = false;
}

static void count(struct queue *q, const struct ibv_cq *cq, bool is_traced)
{
	struct sr_pick_counts entry;

	if (q->cq != (uintptr_t)cq) {
		end_entry(q);
		q->counts = (struct sr_pick_counts){0};
		q->cq = (uintptr_t)cq;
	}
	if (sr_pick_count(&q->counts, is_traced, &entry))
		write_entry(q, &entry);
	if (!is_traced || q->is_unfinished)
		keep_unfinished(q);
}

/* ------------------------------------------------------------------- a poll */

/* Is the number of a queue pair the same thing in the whole process, and does each completion say its own? */
static bool are_known(const struct ibv_cq *cq, const struct ibv_wc *wc, int n)
{
	if (sr_threaded || (device && device != cq->context))
		return false;
	device = cq->context;
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			return false;
	return true;
}

/* Can a replay find out all that the record will lack? */
static bool can_be_found(const struct ibv_wc *wc, const struct sr_clock_qp *c, const struct sr_received *r)
{
	if (!c || r->is_odd || r->unproven || sr_self.commutes.on)
		return false;
	if (wc->opcode & IBV_WC_RECV)
		return !c->qp->srq;
	/* It may also tell what READs in front of it brought. */
	return !r->count && (wc->opcode == IBV_WC_SEND || wc->opcode == IBV_WC_RDMA_WRITE);
}

/* What was known of this process when the first one was posted; of all receives, messages are counted. */
static uint64_t known_of(const struct ibv_cq *cq, const struct ibv_wc *wc, int n, const struct sr_received *r)
{
	uint64_t first = 0;

	for (int i = 0; i < n; i++) {
		struct sr_clock_qp *c = sr_clocks_carrying(cq->context, wc[i].qp_num);
		uint64_t known = wc[i].opcode & IBV_WC_RECV ? (c ? sr_clocks_known_to_sender(c) : 0) : r->posted_at;

		if (!i)
			first = known;
	}
	return first;
}

static bool are_of_one(const struct ibv_wc *wc, int n)
{
	for (int i = 1; i < n; i++)
		if (queue_of(&wc[i]) != queue_of(&wc[0]) || wc[i].opcode != wc[0].opcode)
			return false;
	return true;
}

/* Between requests whose completions tell, as those of READs do, one that does not costs an entry, which is more. */
static bool is_worth_it(struct queue *q, bool may_lack)
{
	if (!may_lack)
		q->may_lack = 0;
	else if (q->may_lack < MAY_LACK_LEAST)
		q->may_lack++;
	return q->receives || q->may_lack == MAY_LACK_LEAST;
}

/* NULL: no memory. */
static struct queue *queue_for(const struct ibv_wc *wc)
{
	struct queue *q = get(&by_queue, queue_of(wc) + 1, sizeof(*q));

	if (q) {
		q->qp_num = wc->qp_num;
		q->receives = wc->opcode & IBV_WC_RECV;
	}
	return q;
}

void sr_picks_polled(struct ibv_cq *cq, const struct ibv_wc *wc, int n, struct sr_received *received)
{
	const struct sr_clock_qp *c = sr_clocks_carrying(cq->context, wc[0].qp_num);
	struct sr_picks *p = get(&by_cq, (uintptr_t)cq, sizeof(*p));
	uint64_t known;
	bool lacks;

	if (!p || !are_known(cq, wc, n)) {
		sr_picks_stop();
		return;
	}
	known = known_of(cq, wc, n, received);
	lacks = are_of_one(wc, n) && can_be_found(wc, c, received) && !sr_pick_races(p, queue_of(&wc[0]), known);
	for (int i = 0; i < n; i++) {
		struct queue *q = queue_for(&wc[i]);

		if (!q) {
			sr_picks_stop();
			return;
		}
		lacks = is_worth_it(q, lacks) && lacks;
		count(q, cq, !lacks);
	}
	sr_pick_was(p, queue_of(&wc[n - 1]), sr_clocks_now());
	received->lacks_queue = lacks;
	/* A REPEAT stands for records that are alike, but the next one may be another queue's. */
	if (lacks)
		sr_self.last.len = 0;
}
