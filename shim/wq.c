/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wq.c: which work request a completion belongs to.
 *
 * Programs use one wr_id for many requests, and a shared receive queue
 * completes in no fixed order, so the program's wr_id cannot tell.  The shim
 * posts each request with a wr_id of its own, the address of an sr_wqe, and puts
 * the program's back into the completion.
 *
 * A send queue completes in the order of its posts, and a completion stands for
 * the unsignaled requests before it: there requests are kept in a list.  Threads
 * that poll one completion queue may tell of completions in another order than
 * that of the queue; so a request that has a completion of its own, which
 * another thread may be holding, leaves the list but lives on until it is told.
 *
 * Lock order: posts before list.  The lock on posts is held across the real
 * post, so that the list has the order of the queue; a completion may be polled
 * before that post returns, and takes the list's lock only.
 */
#include <errno.h>
#include <string.h>

#include "shim/heap.h"
#include "shim/map.h"
#include "shim/objects.h"
#include "shim/thread.h"

#define MAGIC      0x73725f7771655f31ull

/* Requests are allocated in chunks. */
#define CHUNK_WQES 64

struct chunk {
	struct chunk *next;
};

struct sr_wq {
	struct ibv_context *context;
	uint32_t max_sge;
	struct sr_lock posts;
	struct sr_lock list;
	struct sr_wqe *free;
	struct sr_wqe *first, *last; /* posted, not completed; ordered queues only */
	struct chunk *chunks;
	uint64_t outstanding;
	bool ordered;
	struct sr_wq *_Atomic next_retired;
};

/*
 * A completion queue made through the shim.  A destroyed queue pair may have
 * left completions in it, whose requests must be known until they were polled.
 * Once a poll finds the queue empty there can be none; a poll of another thread
 * may just then be looking at the last of them, so the memory goes only when
 * the next queue pair is retired.
 */
struct sr_cq {
	struct sr_lock lock;
	struct sr_wq *_Atomic retired;
	struct sr_wq *drained;
};

static struct sr_map cqs;
static atomic_bool any_retired;

struct sr_wq *sr_wq_create(struct ibv_context *context, uint32_t max_sge, bool ordered)
{
	struct sr_wq *wq = sr_alloc_zeroed(sizeof(*wq));

	if (wq) {
		wq->context = context;
		wq->max_sge = max_sge ? max_sge : 1;
		wq->ordered = ordered;
	}
	return wq;
}

uint32_t sr_wq_max_sge(const struct sr_wq *wq)
{
	return wq->max_sge;
}

static void destroy(struct sr_wq *wq)
{
	struct chunk *chunk = wq->chunks;

	while (chunk) {
		struct chunk *next = chunk->next;

		sr_free(chunk);
		chunk = next;
	}
	sr_free(wq);
}

static void destroy_list(struct sr_wq *wq)
{
	while (wq) {
		struct sr_wq *next = wq->next_retired;

		destroy(wq);
		wq = next;
	}
}

void sr_wq_retire(struct sr_wq *wq, struct ibv_cq *cq)
{
	struct sr_cq *c = cq ? sr_map_get(&cqs, (uintptr_t)cq) : NULL;
	struct sr_wq *drained;

	if (!wq)
		return;
	if (!wq->outstanding) {
		destroy(wq);
		return;
	}
	if (!c)
		return; /* nobody can say when its last completion is polled: kept */
	atomic_store(&any_retired, true);
	sr_lock(&c->lock);
	drained = c->drained;
	c->drained = NULL;
	wq->next_retired = c->retired;
	c->retired = wq;
	sr_unlock(&c->lock);
	destroy_list(drained);
}

struct sr_wq *sr_cq_retired(struct ibv_cq *cq)
{
	struct sr_cq *c;

	/* Nearly always there is none, and no poll has to look. */
	if (!atomic_load_explicit(&any_retired, memory_order_relaxed))
		return NULL;
	c = sr_map_get(&cqs, (uintptr_t)cq);
	return c ? atomic_load_explicit(&c->retired, memory_order_acquire) : NULL;
}

void sr_cq_drained(struct ibv_cq *cq, struct sr_wq *retired)
{
	struct sr_cq *c = sr_map_get(&cqs, (uintptr_t)cq);
	struct sr_wq *_Atomic *link, *wq, *last;

	if (!c)
		return;
	sr_lock(&c->lock);
	/* From there on the list is what was retired before that poll. */
	for (wq = c->retired, last = NULL; wq && wq != retired; wq = wq->next_retired)
		last = wq;
	link = last ? &last->next_retired : &c->retired;
	if (wq) {
		atomic_store(link, NULL);
		for (last = wq; last->next_retired; last = last->next_retired)
			;
		last->next_retired = c->drained;
		c->drained = wq;
	}
	sr_unlock(&c->lock);
}

/* With the list's lock held. */
static bool add_chunk(struct sr_wq *wq)
{
	size_t size = sizeof(struct sr_wqe) + wq->max_sge * sizeof(struct ibv_sge);
	struct chunk *chunk = sr_alloc_zeroed(sizeof(*chunk) + CHUNK_WQES * size);

	if (!chunk)
		return false;
	chunk->next = wq->chunks;
	wq->chunks = chunk;
	for (int i = 0; i < CHUNK_WQES; i++) {
		struct sr_wqe *wqe = (void *)((char *)(chunk + 1) + i * size);

		wqe->magic = MAGIC;
		wqe->wq = wq;
		wqe->next = wq->free;
		wq->free = wqe;
	}
	return true;
}

struct sr_wqe *sr_wqe_take(struct sr_wq *wq, uint64_t wr_id, enum sr_wqe_kind kind,
			   const struct ibv_sge *sge, uint32_t num_sge)
{
	struct sr_wqe *wqe = NULL;

	if (num_sge > wq->max_sge)
		return NULL; /* the provider is going to refuse it */
	sr_lock(&wq->list);
	if (wq->free || add_chunk(wq)) {
		wqe = wq->free;
		wq->free = wqe->next;
		wq->outstanding++;
	}
	sr_unlock(&wq->list);
	if (!wqe)
		return NULL;
	wqe->next = NULL;
	wqe->wr_id = wr_id;
	wqe->kind = kind;
	wqe->signaled = false;
	wqe->num_sge = sge ? num_sge : 0;
	/* The usual list is not worth a call. */
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		wqe->sge[i] = sge[i];
	return wqe;
}

static void release(struct sr_wqe *wqe)
{
	wqe->listed = false;
	wqe->next = wqe->wq->free;
	wqe->wq->free = wqe;
	wqe->wq->outstanding--;
}

void sr_wqe_give_back(struct sr_wqe *wqe)
{
	sr_lock(&wqe->wq->list);
	release(wqe);
	sr_unlock(&wqe->wq->list);
}

void sr_wq_lock_posts(struct sr_wq *wq)
{
	sr_lock(&wq->posts);
}

void sr_wq_unlock_posts(struct sr_wq *wq)
{
	sr_unlock(&wq->posts);
}

void sr_wq_append(struct sr_wq *wq, struct sr_wqe *first, struct sr_wqe *last)
{
	sr_lock(&wq->list);
	if (wq->last)
		wq->last->next = first;
	else
		wq->first = first;
	wq->last = last;
	for (struct sr_wqe *wqe = first; wqe; wqe = wqe->next)
		wqe->listed = true;
	sr_unlock(&wq->list);
}

void sr_wq_unappend(struct sr_wq *wq, struct sr_wqe *first)
{
	struct sr_wqe **link, *last = NULL, *wqe, *next;

	sr_lock(&wq->list);
	for (link = &wq->first; *link && *link != first; link = &(*link)->next)
		last = *link;
	wqe = *link;
	*link = NULL;
	wq->last = last;
	for (; wqe; wqe = next) {
		next = wqe->next;
		release(wqe);
	}
	sr_unlock(&wq->list);
}

/* ------------------------------------------------------------ completions */

static struct sr_wqe *wqe_of(uint64_t wr_id)
{
	struct sr_wqe *wqe = (void *)(uintptr_t)wr_id;

	if (wr_id & 7 || !sr_heap_in_shim_arena(wqe, sizeof(*wqe)) || wqe->magic != MAGIC)
		return NULL;
	return wqe;
}

static void note(struct sr_thread *t, void *p, uint32_t length)
{
	if (t->arrived_count == t->arrived_room) {
		uint32_t room = t->arrived_room ? t->arrived_room * 2 : 64;
		struct sr_arrived *more = sr_alloc(room * sizeof(*more));

		if (!more)
			return;
		memcpy(more, t->arrived, t->arrived_count * sizeof(*more));
		sr_free(t->arrived);
		t->arrived = more;
		t->arrived_room = room;
	}
	t->arrived[t->arrived_count++] = (struct sr_arrived){.addr = p, .length = length};
}

/* The first `length` bytes of the scatter list were written. */
static void arrived(struct sr_wqe *wqe, uint32_t length)
{

	for (uint32_t i = 0; i < wqe->num_sge && length; i++) {
		struct ibv_sge *sge = &wqe->sge[i];
		uint32_t n = sge->length < length ? sge->length : length;
		void *p = sr_mr_memory(wqe->wq->context, sge->lkey, sge->addr, n);

		length -= n;
		if (n && p)
			note(&sr_self, p, n);
	}
}

static uint32_t whole_list(const struct sr_wqe *wqe)
{
	uint32_t length = 0;

	for (uint32_t i = 0; i < wqe->num_sge; i++)
		length += wqe->sge[i].length;
	return length;
}

static bool receives_into_list(const struct ibv_wc *wc)
{
	/* A WRITE with immediate takes a receive request and leaves its buffers alone. */
	return wc->status == IBV_WC_SUCCESS && wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM;
}

/* In the list, all up to the completed request are done. */
static void complete_in_order(struct sr_wq *wq, struct sr_wqe *done, bool success)
{
	struct sr_wqe *wqe, *next;

	for (wqe = wq->first; wqe; wqe = next) {
		next = wqe->next;
		/* What came before a failed request has succeeded. */
		if (wqe->kind == SR_WQE_FETCH && (wqe != done || success))
			arrived(wqe, whole_list(wqe));
		/* After an error, unsignaled ones may have a completion of their own as well. */
		if (wqe == done || (success && !wqe->signaled))
			release(wqe);
		else
			wqe->listed = false;
		if (wqe == done)
			break;
	}
	wq->first = wqe ? next : NULL;
	if (!wq->first)
		wq->last = NULL;
}

void sr_wq_complete(struct ibv_wc *wc)
{
	struct sr_wqe *wqe = wqe_of(wc->wr_id);
	struct sr_wq *wq;

	if (!wqe)
		return;
	wq = wqe->wq;
	sr_lock(&wq->list);
	wc->wr_id = wqe->wr_id;
	if (!wq->ordered) {
		if (receives_into_list(wc))
			arrived(wqe, wc->byte_len);
		release(wqe);
	} else if (wqe->listed) {
		complete_in_order(wq, wqe, wc->status == IBV_WC_SUCCESS);
	} else {
		/* A later one was told first. */
		if (wqe->kind == SR_WQE_FETCH && wc->status == IBV_WC_SUCCESS)
			arrived(wqe, whole_list(wqe));
		release(wqe);
	}
	sr_unlock(&wq->list);
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
