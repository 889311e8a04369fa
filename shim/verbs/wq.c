/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wq.c: finds the work request that a completion belongs to.
 *
 * Programs use one wr_id for many requests, and a shared receive queue completes in any order,
 * so the program's wr_id does not identify a request.  The shim posts each request with a
 * wr_id of its own, the address of an sr_wqe, and restores the program's wr_id in the
 * completion.  Send queues follow the rules of logd/base/matching.h.
 *
 * Two locks let one thread post while another one polls; each is taken once per call.  `posts`
 * is held across the real post, so that the list has the order of the queue.  `done` is held
 * while the completions of a poll are handled.  The poller returns reported requests in a
 * separate list; a poster that has no free request left takes that whole list.
 * Lock order: posts before done.
 */
#include "shim/verbs/wq.h"

#include <string.h>

#include "shim/memory/heap.h"
#include "shim/verbs/regions.h"

/* Requests are allocated in chunks. */
#define CHUNK_WQES 64

struct chunk {
	struct chunk *next;
};

void sr_wq_destroy(struct sr_wq *wq)
{
	struct chunk *chunk = wq->chunks;

	while (chunk) {
		struct chunk *next = chunk->next;

		sr_free(chunk);
		chunk = next;
	}
	sr_free(wq->copies);
	sr_free(wq);
}

static size_t wqe_size(const struct sr_wq *wq)
{
	return sizeof(struct sr_wqe) + wq->max_sge * sizeof(struct ibv_sge);
}

static struct sr_wqe *wqe_in(const struct sr_wq *wq, const struct chunk *chunk, int i)
{
	return (void *)((char *)(chunk + 1) + (size_t)i * wqe_size(wq));
}

/* Called with the lock on posts held, or before any other thread can use the queue. */
static bool add_chunk(struct sr_wq *wq)
{
	struct chunk *chunk = sr_alloc_zeroed(sizeof(*chunk) + CHUNK_WQES * wqe_size(wq));

	if (!chunk)
		return false;
	chunk->next = wq->chunks;
	wq->chunks = chunk;
	wq->count += CHUNK_WQES;
	for (int i = 0; i < CHUNK_WQES; i++) {
		struct sr_wqe *wqe = wqe_in(wq, chunk, i);

		wqe->magic = SR_WQE_MAGIC;
		wqe->wq = wq;
		sr_wqe_put_in(&wq->free, wqe);
	}
	return true;
}

static size_t copy_size(bool ordered)
{
	return ordered ? sizeof(struct ibv_send_wr) : sizeof(struct ibv_recv_wr);
}

struct sr_wq *sr_wq_create(struct ibv_context *context, uint32_t max_sge, uint32_t depth,
			   bool ordered)
{
	struct sr_wq *wq = sr_alloc_zeroed(sizeof(*wq));

	if (!wq)
		return NULL;
	wq->context = context;
	wq->max_sge = max_sge ? max_sge : 1;
	wq->ordered = ordered;
	wq->room = depth < UINT32_MAX ? depth + 1 : depth;
	/* Not zeroed, so a deep queue with short chains never touches most of these pages. */
	wq->copies = sr_alloc(wq->room * copy_size(ordered));
	if (!wq->copies || !add_chunk(wq)) {
		sr_wq_destroy(wq);
		return NULL;
	}
	if (ordered) {
		struct sr_wqe *stub = wq->free;

		wq->free = sr_wqe_next(stub);
		sr_sends_init(&wq->tail, &wq->head, &stub->request);
	}
	return wq;
}

struct sr_wq *sr_wq_create_alike(const struct sr_wq *wq)
{
	return sr_wq_create(wq->context, wq->max_sge, wq->room - 1, wq->ordered);
}

uint32_t sr_wq_max_sge(const struct sr_wq *wq)
{
	return wq->max_sge;
}

static uint64_t length_of(const struct sr_wqe *wqe)
{
	uint64_t n = 0;

	for (; wqe; wqe = sr_wqe_next(wqe))
		n++;
	return n;
}

bool sr_wq_has_outstanding(struct sr_wq *wq)
{
	uint64_t idle = length_of(wq->free);

	sr_lock(&wq->done);
	idle += length_of(wq->returned) + (wq->head.passed && wq->head.passed->reported);
	sr_unlock(&wq->done);
	return idle < wq->count;
}

/* Puts it in its place among the n oldest ones so far.  Returns how many there are then. */
static uint32_t insert(struct sr_wqe **oldest, uint32_t n, uint32_t room, struct sr_wqe *wqe)
{
	uint32_t at = n < room ? n++ : room - 1;

	if (at + 1 == room && oldest[at] && oldest[at]->number < wqe->number)
		return n;
	for (; at && oldest[at - 1]->number > wqe->number; at--)
		oldest[at] = oldest[at - 1];
	oldest[at] = wqe;
	return n;
}

uint32_t sr_wq_oldest_receives(const struct sr_wq *wq, struct sr_wqe **oldest, uint32_t room)
{
	uint64_t completed = 0;
	uint32_t n = 0;

	memset(oldest, 0, room * sizeof(*oldest));
	for (struct chunk *chunk = wq->chunks; chunk; chunk = chunk->next)
		for (int i = 0; i < CHUNK_WQES; i++) {
			struct sr_wqe *wqe = wqe_in(wq, chunk, i);

			if (wqe->request.reported && wqe->number > completed)
				completed = wqe->number;
			else if (wqe->number && !wqe->request.reported)
				n = insert(oldest, n, room, wqe);
		}
	for (uint32_t i = 0; i < n && oldest[i]->number < completed; i++)
		oldest[i]->number = 0;
	return n;
}

/* ------------------------------------------------------------------ posts */

void sr_wq_lock_posts(struct sr_wq *wq)
{
	sr_lock(&wq->posts);
}

void *sr_wq_begin_posts(struct sr_wq *wq, uint32_t *room)
{
	sr_lock(&wq->posts);
	*room = wq->room;
	return wq->copies;
}

void sr_wq_unlock_posts(struct sr_wq *wq)
{
	sr_unlock(&wq->posts);
}

static bool refill(struct sr_wq *wq)
{
	sr_lock(&wq->done);
	wq->free = wq->returned;
	wq->returned = NULL;
	sr_unlock(&wq->done);
	return wq->free || add_chunk(wq);
}

struct sr_wqe *sr_wqe_take(struct sr_wq *wq, uint64_t wr_id, enum sr_wqe_kind kind,
			   const struct ibv_sge *sge, uint32_t num_sge)
{
	struct sr_wqe *wqe;

	if (num_sge > wq->max_sge)
		return NULL; /* the provider will refuse it */
	if (!wq->free && !refill(wq))
		return NULL;
	wqe = wq->free;
	wq->free = sr_wqe_next(wqe);
	wqe->number = ++wq->taken;
	wqe->request.wr_id = wr_id;
	wqe->request.signaled = wqe->request.passed = wqe->request.reported = false;
	wqe->kind = kind;
	wqe->role = SR_WQE_PROGRAM;
	wqe->other = NULL;
	wqe->fetches = wqe->checked.on = false;
	wqe->lent_status = IBV_WC_SUCCESS;
	wqe->num_sge = sge ? num_sge : 0;
	if (wqe->num_sge && sr_regions_is_near(sge)) {
		sr_exposed_copy(sge, wqe->sge, wqe->num_sge * sizeof(*sge));
		return wqe;
	}
	/* The usual list is too short for a call of memcpy. */
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		wqe->sge[i] = sge[i];
	return wqe;
}

void sr_wqe_give_back(struct sr_wqe *wqe)
{
	wqe->number = 0;
	sr_wqe_put_in(&wqe->wq->free, wqe);
}

void sr_wq_append(struct sr_wq *wq, struct sr_wqe *wqe)
{
	sr_sends_append(&wq->tail, &wqe->request);
}

void sr_wq_unappend(struct sr_wq *wq, struct sr_wqe *first)
{
	struct sr_wqe *next;

	sr_sends_take_back(&wq->tail, &first->request);
	for (struct sr_wqe *wqe = first; wqe; wqe = next) {
		next = sr_wqe_next(wqe);
		sr_wqe_give_back(wqe);
	}
}

void sr_wq_set_clock(struct sr_wq *wq, struct sr_clock_qp *clock)
{
	if (!wq)
		return;
	sr_lock(&wq->done);
	wq->clock = clock;
	sr_unlock(&wq->done);
}

uint64_t sr_wq_passed(const struct sr_wq *wq)
{
	return __atomic_load_n(&wq->passed_count, __ATOMIC_RELAXED);
}
