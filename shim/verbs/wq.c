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
 * Two locks, so that who posts and who polls do not meet, each taken once a
 * call: posts, across the real post, so that the list has the order of the
 * queue; and done, for a poll's completions.  The list's end belongs to the
 * one, its beginning to the other: it always has a request in it, the last one
 * that was passed (at first a stub), so that neither changes the other's end.
 * Told requests are handed back in a list of their own, which a post that has
 * run out takes as a whole.  Lock order: posts before done.
 */
#include <errno.h>
#include <string.h>

#include "logd/base/matching.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/polls.h"
#include "shim/verbs/regions.h"

#define MAGIC      0x73725f7771655f31ull

/* Requests are allocated in chunks. */
#define CHUNK_WQES 64

/* A cache line. */
#define APART      64

struct chunk {
	struct chunk *next;
};

struct sr_wq {
	/* Constant. */
	struct ibv_context *context;
	uint32_t max_sge;
	uint32_t room;
	bool ordered;
	void *copies;

	/* The poster's, with posts held; in lines that the poller does not touch. */
	char apart[APART];
	struct sr_lock posts;
	struct sr_wqe *free;
	struct sr_send_tail tail; /* ordered queues only */
	struct chunk *chunks;
	uint64_t count; /* all there are */

	/* The poller's, with done held. */
	char apart_again[APART];
	struct sr_lock done;
	struct sr_wqe *returned;      /* reported */
	struct sr_received *received; /* of the poll under way */
	struct sr_send_head head;     /* ordered queues only */
	struct sr_clock_qp *clock;
	uint64_t passed_count; /* of the program's requests; read by the poster */

	struct sr_wq *_Atomic next_retired;
	uint64_t drained_at; /* in epochs of polls, see below */
};

/*
 * A completion queue made through the shim.  A destroyed queue pair may have
 * left completions in it, whose requests must be known until they were polled.
 * Once a poll finds the queue empty there can be none; a poll of another thread
 * may just then be looking at the last of them, so the memory goes only when
 * a queue pair is retired and all those polls are over.
 */
struct sr_cq {
	struct sr_lock lock;
	struct sr_wq *_Atomic retired;
	struct sr_wq *drained;
};

static struct sr_map cqs;
atomic_bool sr_any_retired;

static struct sr_poller *_Atomic pollers; /* none is ever taken out */
atomic_uint_fast64_t sr_poll_epoch = 1;
static atomic_bool unnamed_pollers; /* there was no memory for one */

static struct sr_poller *spare_poller(void)
{
	struct sr_poller *p;

	for (p = pollers; p; p = p->next)
		if (!atomic_exchange(&p->taken, true))
			return p;
	return NULL;
}

struct sr_poller *sr_poller_new(void)
{
	struct sr_poller *p = spare_poller();

	if (p)
		return p;
	p = sr_alloc_zeroed(sizeof(*p));
	if (!p) {
		unnamed_pollers = true;
		return NULL;
	}
	p->taken = true;
	p->next = pollers;
	while (!atomic_compare_exchange_weak(&pollers, &p->next, p))
		;
	return p;
}

void sr_poller_ends(struct sr_received *r)
{
	struct sr_poller *p = r->poller;

	r->poller = NULL;
	if (!p)
		return;
	p->since = 0;
	p->taken = false;
}

/* Since when the poll under way lasts that began first. */
static uint64_t oldest_poll(void)
{
	uint64_t oldest = UINT64_MAX, since;

	for (struct sr_poller *p = pollers; p; p = p->next) {
		since = atomic_load_explicit(&p->since, memory_order_acquire);
		if (since && since < oldest)
			oldest = since;
	}
	return unnamed_pollers ? 0 : oldest;
}

static void destroy(struct sr_wq *wq)
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

static struct sr_wqe *next_of(const struct sr_wqe *wqe)
{
	return (struct sr_wqe *)wqe->request.next;
}

static void put_in(struct sr_wqe **list, struct sr_wqe *wqe)
{
	wqe->request.next = *list ? &(*list)->request : NULL;
	*list = wqe;
}

/* With the lock on posts held, or before anybody knows of the queue. */
static bool add_chunk(struct sr_wq *wq)
{
	size_t size = sizeof(struct sr_wqe) + wq->max_sge * sizeof(struct ibv_sge);
	struct chunk *chunk = sr_alloc_zeroed(sizeof(*chunk) + CHUNK_WQES * size);

	if (!chunk)
		return false;
	chunk->next = wq->chunks;
	wq->chunks = chunk;
	wq->count += CHUNK_WQES;
	for (int i = 0; i < CHUNK_WQES; i++) {
		struct sr_wqe *wqe = (void *)((char *)(chunk + 1) + i * size);

		wqe->magic = MAGIC;
		wqe->wq = wq;
		put_in(&wq->free, wqe);
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
	/* Not zeroed: the pages of a deep queue that only ever sees short chains are never there.
	 */
	wq->copies = sr_alloc(wq->room * copy_size(ordered));
	if (!wq->copies || !add_chunk(wq)) {
		destroy(wq);
		return NULL;
	}
	if (ordered) {
		struct sr_wqe *stub = wq->free;

		wq->free = next_of(stub);
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

static void destroy_list(struct sr_wq *wq)
{
	while (wq) {
		struct sr_wq *next = wq->next_retired;

		destroy(wq);
		wq = next;
	}
}

static uint64_t length_of(const struct sr_wqe *wqe)
{
	uint64_t n = 0;

	for (; wqe; wqe = next_of(wqe))
		n++;
	return n;
}

static bool has_outstanding(struct sr_wq *wq)
{
	uint64_t idle = length_of(wq->free);

	sr_lock(&wq->done);
	idle += length_of(wq->returned) + (wq->head.passed && wq->head.passed->reported);
	sr_unlock(&wq->done);
	return idle < wq->count;
}

/* Drained, and before all polls that are under way. */
static struct sr_wq *take_unseen(struct sr_cq *c)
{
	uint64_t oldest = c->drained ? oldest_poll() : 0;
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
	if (!has_outstanding(wq)) {
		destroy(wq);
		return;
	}
	if (!c)
		return; /* nobody can say when its last completion is polled: kept */
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
	/* From there on the list is what was retired before that poll. */
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
		return NULL; /* the provider is going to refuse it */
	if (!wq->free && !refill(wq))
		return NULL;
	wqe = wq->free;
	wq->free = next_of(wqe);
	wqe->request.wr_id = wr_id;
	wqe->request.signaled = wqe->request.passed = wqe->request.reported = false;
	wqe->kind = kind;
	wqe->role = SR_WQE_PROGRAM;
	wqe->other = NULL;
	wqe->lent_status = IBV_WC_SUCCESS;
	wqe->num_sge = sge ? num_sge : 0;
	if (wqe->num_sge && sr_regions_is_near(sge)) {
		sr_exposed_copy(sge, wqe->sge, wqe->num_sge * sizeof(*sge));
		return wqe;
	}
	/* The usual list is not worth a call. */
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		wqe->sge[i] = sge[i];
	return wqe;
}

struct sr_wqe *sr_wqe_of(uint64_t wr_id)
{
	struct sr_wqe *wqe = (void *)(uintptr_t)wr_id;

	if (wr_id & 7 || !sr_heap_in_shim_arena(wqe, sizeof(*wqe)) || wqe->magic != MAGIC)
		return NULL;
	return wqe;
}

void sr_wqe_give_back(struct sr_wqe *wqe)
{
	put_in(&wqe->wq->free, wqe);
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
		next = next_of(wqe);
		sr_wqe_give_back(wqe);
	}
}

/* ------------------------------------------------------------ completions */

static void add_piece(struct sr_received *r, void *p, uint32_t length)
{
	if (r->count == r->room) {
		uint32_t room = r->room ? r->room * 2 : 64;
		struct sr_received_piece *more = sr_alloc(room * sizeof(*more));

		if (!more)
			return;
		if (r->pieces)
			memcpy(more, r->pieces, r->count * sizeof(*more));
		sr_free(r->pieces);
		r->pieces = more;
		r->room = room;
	}
	r->pieces[r->count++] = (struct sr_received_piece){.addr = p, .length = length};
}

/*
 * What lies in exposed regions is recorded when it is looked at; pages that became exposed regions
 * because of other things in them may have had it before.
 */
static void add_outside_of_exposed_regions(struct sr_received *r, char *p, uint32_t length)
{
	uint32_t n;

	for (; length; p += n, length -= n) {
		n = (uint32_t)(PAGE - (uintptr_t)p % PAGE);
		n = n < length ? n : length;
		if (!sr_exposed_touches(p, n) || sr_exposed_is_partial(p))
			add_piece(r, p, n);
	}
}

/* The first `length` bytes of the scatter list were written. */
static void add_written(struct sr_received *r, struct sr_wqe *wqe, uint32_t length)
{
	for (uint32_t i = 0; i < wqe->num_sge && length; i++) {
		struct ibv_sge *sge = &wqe->sge[i];
		uint32_t n = sge->length < length ? sge->length : length;
		void *p = sr_mr_written(wqe->wq->context, sge->lkey, sge->addr, n);

		length -= n;
		if (n && p && sr_regions_on && sr_exposed_touches(p, n))
			add_outside_of_exposed_regions(r, p, n);
		else if (n && p)
			add_piece(r, p, n);
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

static void hand_back(struct sr_wq *wq, struct sr_wqe *wqe)
{
	put_in(&wq->returned, wqe);
}

static inline void passed(void *owner, struct sr_send_request *r)
{
	const struct sr_wqe *wqe = (struct sr_wqe *)r;
	struct sr_wq *wq = owner;

	if (wqe->role == SR_WQE_PROGRAM)
		__atomic_store_n(&wq->passed_count, wq->passed_count + 1, __ATOMIC_RELAXED);
}

/* Inlined, or every completion would pay for a call. */
static inline __attribute__((always_inline)) void ended(void *owner, struct sr_send_request *r,
							bool succeeded)
{
	struct sr_wqe *wqe = (struct sr_wqe *)r;
	struct sr_wq *wq = owner;

	if (wqe->kind == SR_WQE_FETCH && succeeded)
		add_written(wq->received, wqe, whole_list(wqe));
	if (wqe->role == SR_WQE_READER && succeeded)
		sr_clocks_read(wq->clock);
}

static inline void left(void *owner, struct sr_send_request *r)
{
	if (r->reported)
		hand_back(owner, (struct sr_wqe *)r);
}

static const struct sr_send_events completion_events = {passed, ended, left};

static void complete_in_order(struct sr_wq *wq, struct sr_wqe *wqe, enum ibv_wc_status status)
{
	sr_sends_complete(&wq->head, &wqe->request, status, &completion_events, wq);
}

static bool is_failure(enum ibv_wc_status status)
{
	return status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR;
}

/* Only errors are told of a CLOCK.  Without it, the request behind it would have had this one. */
static bool complete_clock(struct sr_wq *wq, struct sr_wqe *wqe, struct ibv_wc *wc)
{
	if (is_failure(wc->status) && wqe->other) {
		wqe->other->lent_status = wc->status;
		wqe->other->lent_vendor_err = wc->vendor_err;
	}
	complete_in_order(wq, wqe, wc->status);
	return false;
}

/*
 * The completion of a READER stands for that of the request in front of it,
 * which was posted unsignaled: that has succeeded, or would have told of its
 * failure itself.  So it has even if the READER was flushed.
 */
static bool complete_reader(struct sr_wq *wq, struct sr_wqe *wqe, struct ibv_wc *wc)
{
	bool stands = wqe->stands && !wqe->dropped;

	wc->wr_id = wqe->request.wr_id;
	wc->opcode = wqe->opcode;
	wc->byte_len = wqe->length;
	complete_in_order(wq, wqe, wc->status);
	wc->status = IBV_WC_SUCCESS;
	wc->vendor_err = 0;
	return stands;
}

/* False: not to be shown to the program. */
static bool complete_send(struct sr_wq *wq, struct sr_wqe *wqe, struct ibv_wc *wc)
{
	if (wqe->role == SR_WQE_CLOCK)
		return complete_clock(wq, wqe, wc);
	if (wqe->role == SR_WQE_READER)
		return complete_reader(wq, wqe, wc);
	wc->wr_id = wqe->request.wr_id;
	if (wqe->other && wc->status != IBV_WC_SUCCESS)
		wqe->other->dropped = true;
	if (wqe->lent_status != IBV_WC_SUCCESS && wc->status == IBV_WC_WR_FLUSH_ERR) {
		wc->status = wqe->lent_status;
		wc->vendor_err = wqe->lent_vendor_err;
	}
	complete_in_order(wq, wqe, wc->status);
	return true;
}

static bool complete(struct sr_wq *wq, struct sr_wqe *wqe, struct ibv_wc *wc)
{
	if (wq->ordered)
		return complete_send(wq, wqe, wc);
	wc->wr_id = wqe->request.wr_id;
	if (receives_into_list(wc))
		add_written(wq->received, wqe, wc->byte_len);
	hand_back(wq, wqe);
	return true;
}

/* Polls that are under way, but for those that wait here themselves, come to their end. */
static void await_other_polls(struct sr_poller *me)
{
	uint64_t now = atomic_fetch_add(&sr_poll_epoch, 1) + 1;

	/* What this one knows of failures is said. */
	if (me && me->since)
		me->since = now;
	for (struct sr_poller *p = pollers; p; p = p->next)
		while (p != me && p->since && p->since < now)
			sr_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/*
 * A READER that was flushed stands for a READ that succeeded, unless that has
 * a failure of its own: which another thread may have polled, and not told of yet.
 */
static void settle_readers(const struct ibv_wc *wc, int n, struct sr_poller *me)
{
	bool flushed = false;

	for (int i = 0; i < n; i++) {
		struct sr_wqe *wqe = wc[i].status == IBV_WC_SUCCESS ? NULL : sr_wqe_of(wc[i].wr_id);

		if (!wqe || !wqe->wq->ordered)
			continue;
		flushed |= wqe->role == SR_WQE_READER && wqe->stands;
		if (wqe->role == SR_WQE_PROGRAM && wqe->other) {
			sr_lock(&wqe->wq->done);
			wqe->other->dropped = true;
			sr_unlock(&wqe->wq->done);
		}
	}
	if (flushed)
		await_other_polls(me);
}

static struct sr_wq *lock_next(struct sr_wq *locked, struct sr_wq *next,
			       struct sr_received *received)
{
	if (locked)
		sr_unlock(&locked->done);
	if (next) {
		sr_lock(&next->done);
		next->received = received;
	}
	return next;
}

int sr_wq_complete(struct ibv_wc *wc, int n, struct sr_received *received)
{
	struct sr_wq *locked = NULL;
	bool has_failures = false;
	int kept = 0;

	for (int i = 0; i < n; i++) {
		struct sr_wqe *wqe = sr_wqe_of(wc[i].wr_id);

		/* Those in front of the first failure have nothing to do with it. */
		if (__builtin_expect(wc[i].status != IBV_WC_SUCCESS, 0) && !has_failures) {
			has_failures = true;
			locked = lock_next(locked, NULL, received);
			settle_readers(wc + i, n - i, received->poller);
		}
		if (wqe && wqe->wq != locked)
			locked = lock_next(locked, wqe->wq, received);
		if (wqe && !complete(locked, wqe, &wc[i]))
			continue;
		if (kept != i)
			wc[kept] = wc[i];
		kept++;
	}
	if (locked)
		sr_unlock(&locked->done);
	return kept;
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
