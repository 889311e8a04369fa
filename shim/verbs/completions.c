/* SPDX-License-Identifier: BSD-2-Clause */
/* completions.c: handles the completions of a poll; see wq.h. */
#include <string.h>

#include "logd/base/page.h"
#include "logd/trace/left_out.h"
#include "shim/core/order.h"
#include "shim/memory/heap.h"
#include "shim/memory/room.h"
#include "shim/verbs/buffers.h"
#include "shim/verbs/checked.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/counters.h"
#include "shim/verbs/polls.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/scattered.h"
#include "shim/verbs/wq.h"

static bool has_room(struct sr_received *r)
{
	return sr_make_room(&r->pieces, &r->room, r->count + 1, sizeof(*r->pieces));
}

static void insert_piece(struct sr_received *r, uint32_t at, void *p, uint32_t length)
{
	if (!has_room(r))
		return;
	memmove(&r->pieces[at + 1], &r->pieces[at], (r->count - at) * sizeof(*r->pieces));
	r->pieces[at] = (struct sr_received_piece){.addr = p, .length = length};
	r->count++;
}

static void add_piece(struct sr_received *r, void *p, uint32_t length)
{
	insert_piece(r, r->count - r->unproven, p, length);
}

static void add_unproven_piece(struct sr_received *r, void *p, uint32_t length)
{
	uint32_t before = r->count;

	if (!r->unproven)
		insert_piece(r, r->count, NULL, 0);
	insert_piece(r, r->count, p, length);
	r->unproven += r->count - before;
}

typedef void add_function(struct sr_received *r, void *p, uint32_t length);

/*
 * Bytes in exposed regions are recorded when they are sampled, so this function leaves them out.
 * It keeps those on partially registered pages, since they may be unregistered bytes there.
 */
static void add_outside_of_exposed_regions(struct sr_received *r, add_function *add, char *p,
					   uint32_t length)
{
	uint32_t n;

	for (; length; p += n, length -= n) {
		n = (uint32_t)(PAGE - (uintptr_t)p % PAGE);
		n = n < length ? n : length;
		if (!sr_exposed_touches(p, n) || sr_exposed_is_partial(p))
			add(r, p, n);
	}
}

void sr_received_none(struct sr_received *r)
{
	r->count = 0;
	r->unproven = 0;
}

void sr_received_add(struct sr_received *r, void *p, uint32_t length)
{
	if (length && sr_regions_on && sr_exposed_touches(p, length))
		add_outside_of_exposed_regions(r, add_piece, p, length);
	else if (length)
		add_piece(r, p, length);
}

/* False: some of the memory has been deregistered.  The program may use it for other things, and a replay finds it no more. */
static bool add_list(struct sr_received *r, add_function *add, struct sr_wqe *wqe, uint32_t length)
{
	bool registered = true;

	for (uint32_t i = 0; i < wqe->num_sge && length; i++) {
		struct ibv_sge *sge = &wqe->sge[i];
		uint32_t n = sge->length < length ? sge->length : length;
		void *p = sr_mr_memory(wqe->wq->context, sge->lkey, sge->addr, n);

		registered &= p != NULL;
		p = p ? p : sr_mr_written(wqe->wq->context, sge->lkey, sge->addr, n);
		length -= n;
		if (n && p && sr_regions_on && sr_exposed_touches(p, n))
			add_outside_of_exposed_regions(r, add, p, n);
		else if (n && p)
			add(r, p, n);
	}
	return registered;
}

bool sr_leaves_out;

/*
 * The other end's process is of the job, and is recorded: when it is replayed, it sends this again.  The
 * completion names the queue pair, so that the replay knows where it comes from.
 */
static bool is_sent_again(const struct sr_wq *wq, const struct ibv_wc *wc)
{
	return sr_clocks_carried_to(wq->context, wc->qp_num);
}

static void leave_out(struct sr_received *r, uint32_t from)
{
	for (uint32_t i = from; i < r->count - r->unproven; i++)
		r->pieces[i].left_out = !sr_regions_is_near(r->pieces[i].addr);
}

/* Shorter ones are recorded: hardly more bytes than a checksum. Longer ones are searched for too long. */
#define FETCHED_MIN  9
#define FETCHED_MOST 16384
/* Shorter ones that come into exposed memory are recorded: they may be of what many ranks change. */
#define EXPOSED_MIN  64

/* A later one of the queue pair may have landed over it already.  If too many follow, that is not looked for. */
#define LATER_MOST 64

static bool fetches_into(const struct sr_wqe *wqe, const struct ibv_sge *place)
{
	for (uint32_t i = 0; wqe->kind == SR_WQE_FETCH && i < wqe->num_sge; i++)
		if (wqe->sge[i].addr < place->addr + place->length && place->addr < wqe->sge[i].addr + wqe->sge[i].length)
			return true;
	return false;
}

static bool is_overlaid(const struct sr_wqe *wqe)
{
	const struct sr_send_request *r = &wqe->request;

	for (int i = 0; (r = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE)); i++)
		if (i == LATER_MOST || fetches_into((const struct sr_wqe *)r, &wqe->sge[0]))
			return true;
	return false;
}

/* The owner of the memory sees all that changes there, so that its replay knows what the READ found. */
static bool is_fetched_again(const struct sr_wq *wq, const struct sr_wqe *wqe)
{
	uint32_t length = wqe->sge[0].length;

	return wqe->num_sge == 1 && length >= FETCHED_MIN && length <= FETCHED_MOST && !sr_threaded && sr_clocks_peer_is_watched(wq->clock) &&
	       !is_overlaid(wqe) && !sr_counters_touch(sr_clocks_peer(wq->clock), wqe->remote, length);
}

static void leave_out_fetched(struct sr_wq *wq, const struct sr_wqe *wqe, uint32_t from)
{
	struct sr_received *r = wq->received;
	struct sr_received_piece *p = &r->pieces[from];
	uint32_t length = wqe->sge[0].length;

	if (r->count - r->unproven != from + 1 || p->length != length || sr_regions_is_near(p->addr) ||
	    sr_is_scattered(wq, wqe->remote, p->addr, length))
		return;
	/* A replay finds by its address which request a piece is of. */
	for (uint32_t i = 0; i < from; i++)
		if ((char *)r->pieces[i].addr < (char *)p->addr + length && (char *)p->addr < (char *)r->pieces[i].addr + r->pieces[i].length)
			return;
	p->left_out = p->fetched = true;
}

/* Nothing else of the process can have come to these pages, nor can it now. */
static bool is_alone_there(const char *p, uint32_t length)
{
	for (const char *at = p; at < p + length; at += PAGE - (uintptr_t)at % PAGE)
		if (sr_exposed_keeps_values(at))
			return false;
	return true;
}

/*
 * The READ has brought something into exposed memory.  A replay knows what, from its checksum, or else all that loads find
 * there is recorded from now on, and nobody can leave out what he READs there.  False: deregistered meanwhile, it is memory
 * as any other.
 */
static bool fetched_into_exposed(struct sr_wq *wq, const struct sr_wqe *wqe)
{
	void *p = sr_mr_written(wq->context, wqe->sge[0].lkey, wqe->sge[0].addr, wqe->sge[0].length);
	struct sr_received *r = wq->received;
	uint32_t at = r->count - r->unproven;

	if (!p) {
		sr_clocks_unwatched(); /* its pages keep their values */
		return true;
	}
	sr_exposed_fetch_ends(p, wqe->sge[0].length);
	if (!sr_exposed_touches(p, wqe->sge[0].length))
		return false;
	if (wqe->sge[0].length >= EXPOSED_MIN && is_fetched_again(wq, wqe) && is_alone_there(p, wqe->sge[0].length))
		insert_piece(r, at, p, wqe->sge[0].length);
	if (r->count - r->unproven == at) {
		sr_exposed_keep_values(p, wqe->sge[0].length);
		sr_clocks_unwatched();
		return true;
	}
	r->pieces[at].left_out = r->pieces[at].fetched = r->pieces[at].exposed = true;
	return true;
}

void sr_received_expect(struct sr_received *r, void *p, const struct sr_left_out *l)
{
	if (!has_room(r))
		return;
	r->pieces[r->count++] = (struct sr_received_piece){
	    .addr = p, .length = l->length, .left_out = true, .fetched = sr_left_out_is_of_read(l), .checksum = l->checksum, .mask = l->mask};
	/* The recorder leaves out only what lies in exposed memory all of it, or none. */
	r->pieces[r->count - 1].exposed = r->pieces[r->count - 1].fetched && sr_regions_on && sr_exposed_touches(p, l->length);
}

/* The first `length` bytes of the scatter list were written.  The result is that of add_list. */
static bool add_written(struct sr_received *r, struct sr_wqe *wqe, uint32_t length)
{
	return add_list(r, add_piece, wqe, length);
}

static uint32_t whole_list(const struct sr_wqe *wqe)
{
	uint32_t length = 0;

	for (uint32_t i = 0; i < wqe->num_sge; i++)
		length += wqe->sge[i].length;
	return length;
}

/*
 * A request that failed, or was flushed, may have brought bytes all the same: all those of a READ
 * whose answer came before the queue pair broke, or the first packets of a message.
 */
static void add_unproven(struct sr_received *r, struct sr_wqe *wqe)
{
	add_list(r, add_unproven_piece, wqe, whole_list(wqe));
}

static void abandon_fetches(struct sr_wq *wq, struct sr_received *received)
{
	struct sr_send_request *r;

	sr_lock(&wq->done);
	for (r = sr_sends_first(&wq->head); r; r = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE))
		if (((struct sr_wqe *)r)->kind == SR_WQE_FETCH)
			add_unproven(received, (struct sr_wqe *)r);
	sr_unlock(&wq->done);
}

/*
 * Messages come into receives in the order of their posts, so those that have come are in the oldest ones.  How many that are
 * nobody knows; a queue may have thousands of receives.
 */
#define ABANDONED_RECEIVES 32
#define ABANDONED_BYTES    (128u << 10)

/* Many programs post one buffer again and again. */
static bool is_posted_before(struct sr_wqe *const list[], uint32_t i)
{
	const struct sr_wqe *wqe = list[i];

	for (uint32_t k = 0; k < i; k++)
		if (list[k]->num_sge == wqe->num_sge && !memcmp(list[k]->sge, wqe->sge, wqe->num_sge * sizeof(*wqe->sge)))
			return true;
	return false;
}

/* Most of what is there the stream has already, and so a record is short.  With --order it has little of it. */
static void abandon_receives(struct sr_wq *wq, struct sr_received *received)
{
	struct sr_wqe *oldest[ABANDONED_RECEIVES];
	uint64_t bytes = 0;
	uint32_t n;

	sr_lock(&wq->posts);
	sr_lock(&wq->done);
	n = sr_wq_oldest_receives(wq, oldest, ABANDONED_RECEIVES);
	for (uint32_t i = 0; i < n && (bytes += whole_list(oldest[i])) <= ABANDONED_BYTES; i++)
		if (!is_posted_before(oldest, i) && !(sr_leaves_out && sr_buffers_are_untouched(oldest[i])))
			add_unproven(received, oldest[i]);
	sr_unlock(&wq->done);
	sr_unlock(&wq->posts);
}

void sr_wq_abandon(struct sr_wq *wq, struct sr_received *received)
{
	if (wq && wq->ordered)
		abandon_fetches(wq, received);
	else if (wq)
		abandon_receives(wq, received);
}

/*
 * Of the receives that are flushed with a queue pair only the first can have begun: messages come
 * one after the other.
 */
static bool may_have_begun(struct sr_wq *wq, const struct ibv_wc *wc)
{
	bool is_first = wq->flushed_qp_num != wc->qp_num;

	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		return wc->status != IBV_WC_SUCCESS;
	wq->flushed_qp_num = wc->qp_num;
	return is_first;
}

static bool receives_into_list(const struct ibv_wc *wc)
{
	/* A WRITE with immediate data consumes a receive and does not change its buffers. */
	return wc->byte_len && wc->status == IBV_WC_SUCCESS &&
	       wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM;
}

static void hand_back(struct sr_wq *wq, struct sr_wqe *wqe)
{
	sr_wqe_put_in(&wq->returned, wqe);
}

static inline void passed(void *owner, struct sr_send_request *r)
{
	const struct sr_wqe *wqe = (struct sr_wqe *)r;
	struct sr_wq *wq = owner;

	if (wqe->role == SR_WQE_PROGRAM)
		__atomic_store_n(&wq->passed_count, wq->passed_count + 1, __ATOMIC_RELAXED);
}

static void add_fetched(struct sr_wq *wq, struct sr_wqe *wqe)
{
	uint32_t from = wq->received->count - wq->received->unproven;
	bool registered;

	if (__builtin_expect(wqe->fetches, 0) && fetched_into_exposed(wq, wqe))
		return;
	registered = add_written(wq->received, wqe, whole_list(wqe));
	if (__builtin_expect(sr_leaves_out, 0) && registered && is_fetched_again(wq, wqe))
		leave_out_fetched(wq, wqe, from);
}

/* Inlined, because every completion would pay for a call. */
static inline __attribute__((always_inline)) void ended(void *owner, struct sr_send_request *r,
							bool succeeded)
{
	struct sr_wqe *wqe = (struct sr_wqe *)r;
	struct sr_wq *wq = owner;

	if (wqe->kind == SR_WQE_FETCH && succeeded)
		add_fetched(wq, wqe);
	else if (wqe->kind == SR_WQE_FETCH)
		add_unproven(wq->received, wqe);
	else if (__builtin_expect(sr_checks_buffers, 0) && succeeded)
		sr_checked_ends(wqe);
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

/*
 * A CLOCK is unsignaled, so only its failure has a completion.  Without the CLOCK, the request
 * behind it would have failed in the same way, so that request gets the error.
 */
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
 * The completion of a READER stands for that of the request in front of it, which was posted
 * unsignaled.  That request has succeeded, even if the READER was flushed: otherwise it would
 * have reported its failure itself.
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

/* Returns false if the program must not see the completion. */
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
	if (!wq->received->posted_at)
		wq->received->posted_at = wqe->posted_at;
	complete_in_order(wq, wqe, wc->status);
	return true;
}

/* Is what came in one piece, which the trace leaves out, where the first element of the list says? */
static bool is_plain(const struct sr_received *r, uint32_t from, const struct sr_wqe *wqe, uint32_t length)
{
	const struct sr_received_piece *p = &r->pieces[from];

	return r->count - r->unproven == from + 1 && p->left_out && p->length == length && wqe->num_sge &&
	       (uintptr_t)p->addr == wqe->sge[0].addr;
}

static bool complete(struct sr_wq *wq, struct sr_wqe *wqe, struct ibv_wc *wc)
{
	bool may_leave_out;

	if (wq->ordered)
		return complete_send(wq, wqe, wc);
	wc->wr_id = wqe->request.wr_id;
	if (wqe->request.reported)
		return true; /* twice: not by a device that keeps the rules; it must not be free
				twice */
	wqe->request.reported = true;
	may_leave_out = __builtin_expect(sr_leaves_out, 0) && !sr_buffers_complete(wqe);
	if (receives_into_list(wc)) {
		uint32_t from = wq->received->count - wq->received->unproven;

		may_leave_out &= add_written(wq->received, wqe, wc->byte_len);
		if (may_leave_out && is_sent_again(wq, wc))
			leave_out(wq->received, from);
		wq->received->is_odd |= !is_plain(wq->received, from, wqe, wc->byte_len);
	}
	else if (__builtin_expect(may_have_begun(wq, wc), 0))
		add_unproven(wq->received, wqe);
	hand_back(wq, wqe);
	return true;
}

/*
 * A flushed READER stands for a READ that succeeded, unless the READ has a failed completion of
 * its own.  Another thread may have polled that one and not handled it yet, so this function
 * waits for the other polls.
 */
static void find_dropped_readers(const struct ibv_wc *wc, int n, struct sr_poller *me)
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
		sr_polls_await_others(me);
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

		/* Completions in front of the first failure do not depend on it. */
		if (__builtin_expect(wc[i].status != IBV_WC_SUCCESS, 0) && !has_failures) {
			has_failures = true;
			locked = lock_next(locked, NULL, received);
			find_dropped_readers(wc + i, n - i, received->poller);
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
