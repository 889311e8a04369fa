/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * retired.c: completion queues, and destroyed work queues that may have completions left in
 * them; see wq.h.
 */
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/polls.h"
#include "shim/verbs/wq.h"

/*
 * A completion queue created through the shim.  A destroyed queue pair may have left completions
 * in it; their requests must stay valid until the program has polled them.  When a poll finds
 * the queue empty, none is left.  But at that moment another thread may still be handling the
 * last of them.  So the memory is freed later: when a queue pair is retired and all those polls
 * have ended.
 */
struct sr_cq {
	struct sr_lock lock;
	struct sr_wq *_Atomic retired;
	struct sr_wq *drained;
};

static struct sr_map cqs;
atomic_bool sr_any_retired;

static void destroy_list(struct sr_wq *wq)
{
	while (wq) {
		struct sr_wq *next = wq->next_retired;

		sr_wq_destroy(wq);
		wq = next;
	}
}

/* Takes the queues that were drained before every current poll began. */
static struct sr_wq *take_unseen(struct sr_cq *c)
{
	uint64_t oldest = c->drained ? sr_polls_oldest() : 0;
	struct sr_wq *unseen = NULL, *next, *rest = c->drained;

	c->drained = NULL;
	for (struct sr_wq *wq = rest; wq; wq = next) {
		struct sr_wq **list = wq->drained_at < oldest ? &unseen : &c->drained;

		next = wq->next_retired;
		wq->next_retired = *list;
		*list = wq;
	}
	return unseen;
}

void sr_wq_retire(struct sr_wq *wq, struct ibv_cq *cq)
{
	struct sr_cq *c = cq ? sr_map_get(&cqs, (uintptr_t)cq) : NULL;
	struct sr_wq *drained;

	if (!wq)
		return;
	if (!sr_wq_has_outstanding(wq)) {
		sr_wq_destroy(wq);
		return;
	}
	if (!c)
		return; /* never freed: the shim cannot see when its last completion is polled */
	atomic_store(&sr_any_retired, true);
	sr_lock(&c->lock);
	drained = take_unseen(c);
	wq->next_retired = c->retired;
	c->retired = wq;
	sr_unlock(&c->lock);
	destroy_list(drained);
}

struct sr_wq *sr_cq_find_retired(struct ibv_cq *cq)
{
	struct sr_cq *c = sr_map_get(&cqs, (uintptr_t)cq);

	return c ? atomic_load_explicit(&c->retired, memory_order_acquire) : NULL;
}

void sr_cq_drained(struct ibv_cq *cq, struct sr_wq *retired)
{
	struct sr_cq *c = sr_map_get(&cqs, (uintptr_t)cq);
	struct sr_wq *_Atomic *link, *wq, *last;
	uint64_t now;

	if (!c)
		return;
	now = atomic_fetch_add(&sr_poll_epoch, 1);
	sr_lock(&c->lock);
	/* From `retired` on, the list has the queues that were retired before that poll. */
	for (wq = c->retired, last = NULL; wq && wq != retired; wq = wq->next_retired)
		last = wq;
	link = last ? &last->next_retired : &c->retired;
	if (wq) {
		atomic_store(link, NULL);
		for (last = wq;; last = last->next_retired) {
			last->drained_at = now;
			if (!last->next_retired)
				break;
		}
		last->next_retired = c->drained;
		c->drained = wq;
	}
	sr_unlock(&c->lock);
}

/* ------------------------------------------------------ completion queues */

void sr_cq_add(struct ibv_cq *cq)
{
	sr_cq_put_back(cq, sr_alloc_zeroed(sizeof(struct sr_cq)));
}

bool sr_cq_known(struct ibv_cq *cq)
{
	return cq && sr_map_get(&cqs, (uintptr_t)cq);
}

struct sr_cq *sr_cq_take(struct ibv_cq *cq)
{
	return sr_map_take(&cqs, (uintptr_t)cq);
}

void sr_cq_put_back(struct ibv_cq *cq, struct sr_cq *c)
{
	void *old;

	if (c && sr_map_put(&cqs, (uintptr_t)cq, c, &old))
		sr_free(c);
}

void sr_cq_free(struct sr_cq *c)
{
	if (!c)
		return;
	destroy_list(c->retired);
	destroy_list(c->drained);
	sr_free(c);
}
