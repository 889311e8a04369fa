/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * completions.c: compares the bytes that have entered, as completions prove, with what the group
 * produced; see requests.h.
 */
#include "shim/replay/group/requests.h"

#include "logd/base/checksum.h"
#include "logd/base/datagram.h"
#include "logd/base/opcodes.h"
#include "logd/base/page.h"
#include "shim/memory/heap.h"
#include "shim/replay/group/datagrams.h"
#include "shim/replay/group/fetches.h"
#include "shim/replay/group/group.h"
#include "shim/replay/group/read_again.h"
#include "shim/replay/group/unpolled.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

/* At most so many outstanding receives are checked for memory shared with a receive. */
#define OTHERS_MAX 1024

static const struct ibv_sge *overlap(const struct sr_request *r, uint64_t addr, uint32_t n)
{
	for (uint32_t i = 0; i < r->num_sge; i++)
		if (r->sge[i].addr < addr + n && addr < r->sge[i].addr + r->sge[i].length)
			return &r->sge[i];
	return NULL;
}

/* Do other receives use the same memory?  Then later messages may have overwritten it. */
static enum sr_sharing sharing(const void *receives, uint64_t addr, uint32_t n)
{
	const struct sr_recv_queue *q = receives;
	enum sr_sharing found = SR_NOT_SHARED;
	const struct sr_recv_request *r = q->first;

	for (int i = 0; r && i < OTHERS_MAX; i++, r = r->next) {
		const struct ibv_sge *s = overlap((const struct sr_request *)r, addr, n);

		if (s && s->addr != addr)
			return SR_SHARED_SHIFTED;
		if (s)
			found = SR_SHARED_ALIKE;
	}
	return found;
}

/* Of a page with exposed memory all bytes are recorded when they are sampled, unless it is partial. */
static bool is_exposed(uint64_t addr, uint32_t n)
{
	const void *p = (const void *)(uintptr_t)addr;

	return sr_regions_on && n && sr_exposed_touches(p, n) && !sr_exposed_is_partial(p);
}

/* How many bytes from addr on are alike in that: up to the end of the page, where some memory is exposed. */
static uint32_t alike(uint64_t addr, uint32_t n)
{
	uint32_t left = PAGE - (uint32_t)(addr % PAGE);

	if (!sr_regions_on || !sr_exposed_touches((const void *)(uintptr_t)addr, n))
		return n;
	return n < left ? n : left;
}

/* A walk over the pieces of a request's scatter list that are alike, as far as `length` bytes go. */
struct walk {
	const struct sr_request_qp *q;
	const struct sr_request *r;
	uint32_t length;
	uint32_t header; /* the first ones, which no piece has together with others */
	uint32_t from; /* of those, before the piece at hand */
	uint32_t done; /* of those, with it */
	uint32_t element, in_element;
};

/* The next piece; without bytes where no region of the program has it.  False: there is none. */
static bool next_piece(struct walk *w, struct sr_value *v)
{
	const struct ibv_sge *s = &w->r->sge[w->element];
	uint32_t left = w->length - w->done;

	for (; w->element < w->r->num_sge && w->in_element == s->length; s++, w->element++)
		w->in_element = 0;
	if (w->element == w->r->num_sge || !left)
		return false;
	v->addr = s->addr + w->in_element;
	v->length = s->length - w->in_element < left ? s->length - w->in_element : left;
	if (w->done < w->header && v->length > w->header - w->done)
		v->length = w->header - w->done;
	v->length = alike(v->addr, v->length);
	v->bytes = sr_mr_memory(w->q->qp->context, s->lkey, v->addr, v->length);
	w->from = w->done;
	w->done += v->length;
	w->in_element += v->length;
	return true;
}

bool sr_request_holds(const struct sr_request_qp *q, const struct sr_group_channel *in, const struct sr_request *r,
		      uint32_t header, const struct sr_group_message *m)
{
	struct walk w = {.q = q, .r = r, .length = header + m->length, .header = header};
	struct sr_value v = {.t = NULL};

	while (next_piece(&w, &v))
		if (w.from >= header && v.bytes && !is_exposed(v.addr, v.length) && !sr_value_is_sent(&v, in, m, w.from - header))
			return false;
	return w.done == w.length;
}

/* Does the poll's record lack bytes that came into the first memory of this receive, and has not got them so far? */
static bool is_lacking(const struct sr_received *received, const struct sr_request *r)
{
	for (uint32_t i = 0; i < received->count; i++) {
		const struct sr_received_piece *p = &received->pieces[i];

		if (p->left_out && !p->filled && r->num_sge && r->sge[0].addr == (uintptr_t)p->addr)
			return true;
	}
	return false;
}

/*
 * Finds the receive of an SRQ.  If several have the same wr_id, it is the one whose memory holds
 * the message; *certain is false if none does.  Where the record lacks the message, it says where it was.
 */
static struct sr_request *find_shared(const struct sr_thread *t, const struct sr_recv_queue *from,
				      const struct sr_request_qp *q, uint64_t wr_id,
				      const struct sr_group_message *m, bool *certain)
{
	struct sr_recv_request *first = sr_recv_queue_match(from, true, wr_id), *r = first;

	*certain = !first || sr_recv_queue_is_last(from, first);
	if (*certain || !m)
		return (struct sr_request *)first;
	while (r && !is_lacking(&t->received, (struct sr_request *)r) && !sr_request_holds(q, q->in, (struct sr_request *)r, 0, m))
		r = sr_recv_find(r->next, wr_id);
	*certain = r != NULL;
	return (struct sr_request *)(r ? r : first);
}

/*
 * Memory that peers may write holds what the program has found there so far.  A message is in it when a
 * load finds it, so until then it is one more write by its sender.
 */
static void land(const struct sr_group_channel *in, const struct sr_group_message *m, uint32_t from,
		 uint64_t addr, uint32_t n, enum sr_group_write_kind kind)
{
	static uint8_t bytes[PAGE]; /* sr_group_lock guards it */
	struct sr_piece piece = {.p = bytes};

	for (uint32_t at = 0; at < n; at += piece.length) {
		piece.length = n - at < PAGE ? n - at : PAGE;
		if (sr_unpolled_was_found(in, m->number, addr + at))
			continue;
		sr_channel_bytes(in, m, from + at, bytes, piece.length);
		sr_history_add(sr_group_self, &m->origin, kind, addr + at, NULL, &piece, 1);
	}
}

/*
 * Bytes on a page that is partly in an exposed region come with the completion.  A load of anything on that page may
 * have found them before: they had landed, but were not polled.
 */
static bool may_be_loaded_before(const struct sr_value *v)
{
	return sr_regions_on && v->length <= PAGE && sr_exposed_touches((const void *)(uintptr_t)v->addr, v->length);
}

/*
 * The piece of the poll's record that lacks these bytes; NULL: the record has them.  Several may be of the
 * same memory, where a message came over another one: they are filled in their order.
 */
static struct sr_received_piece *left_out(const struct sr_value *v, bool fetched)
{
	struct sr_received *r = &v->t->received;

	for (uint32_t i = 0; i < r->count; i++) {
		struct sr_received_piece *p = &r->pieces[i];
		size_t in_piece = (size_t)(v->bytes - (uint8_t *)p->addr);

		if (p->left_out && p->fetched == fetched && v->bytes >= (uint8_t *)p->addr && in_piece == p->filled &&
		    v->length <= p->length - in_piece)
			return p;
	}
	return NULL;
}

/* The bytes are in memory now, from the message or, without one, from outside. */
static void enter(const struct sr_value *v, struct sr_request_qp *q, const struct sr_request *r,
		  struct sr_group_channel *in, const struct sr_group_message *m, uint32_t from)
{
	struct sr_received_piece *expected = left_out(v, false);
	const struct sr_landing landing = {sharing, sr_request_receives(q), r->fetch};

	if (expected && m) {
		sr_value_produced(v, in, m, from);
		expected->filled += v->length;
		expected->sender = sr_group_memory->member[m->origin.member].rank;
	} else if (expected && in) {
		sr_group_has_ended((uint32_t)in->key.from);
	} else if (m) {
		sr_value_received(v, in, m, from, &landing);
	} else {
		sr_value_from_outside(v);
	}
}

static void compare_received(struct sr_thread *t, struct sr_request_qp *q,
			     struct sr_group_channel *in, const struct sr_request *r,
			     uint32_t length, const struct sr_group_message *m)
{
	const uint32_t header = q->qp->qp_type == IBV_QPT_UD ? SR_DATAGRAM_HEADER : 0;
	struct walk w = {.q = q, .r = r, .length = length, .header = header};
	struct sr_value v = {.t = t};

	while (next_piece(&w, &v)) {
		bool enters = v.bytes && !is_exposed(v.addr, v.length), is_header = w.from < header;

		if (v.bytes && is_header && m && !enters)
			sr_contents_expected(&m->origin, SR_GROUP_HEADER, v.addr, v.length);
		if (enters && is_header && m)
			sr_value_is_header(&v, m);
		else if (enters)
			enter(&v, q, r, in, m, w.from - header);
		if (v.bytes && m && !is_header && (!enters || may_be_loaded_before(&v)))
			land(in, m, w.from - header, v.addr, v.length, enters ? SR_GROUP_ENTERED : SR_GROUP_BYTES);
	}
}

/* Takes the next message of a connection that loses none. */
static bool next_message(struct sr_thread *t, struct sr_request_qp *q, struct sr_group_message *m)
{
	if (!q->in)
		return false;
	/* What this process sends to itself was posted in an earlier call. */
	if ((uint32_t)q->in->key.from == sr_group_self
		? atomic_load(&q->in->posted) <= q->received
		: !sr_progress_wait_posted(t, q->in, q->received + 1))
		return false;
	sr_channel_message(q->in, q->received++, m);
	return true;
}

/* A search on a connection that may lose messages: for the next one that fits the completion. */
struct surviving {
	const struct sr_request_qp *q;
	const struct sr_request *r;
	const struct ibv_wc *wc;
	struct sr_group_message *m;
	uint64_t number;
};

static bool fits(const struct sr_request_qp *q, const struct sr_group_channel *in,
		 const struct sr_request *r, const struct ibv_wc *wc,
		 const struct sr_group_message *m)
{
	bool by_write = m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (by_write || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return by_write && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
		       m->written == wc->byte_len;
	return m->length == wc->byte_len && sr_request_holds(q, in, r, 0, m);
}

static bool find_surviving(void *argument)
{
	struct surviving *s = argument;
	uint64_t posted = atomic_load(&s->q->in->posted);

	for (s->number = s->q->received; s->number < posted; s->number++) {
		sr_channel_message(s->q->in, s->number, s->m);
		if (fits(s->q, s->q->in, s->r, s->wc, s->m))
			return true;
	}
	return false;
}

static bool next_surviving(struct sr_request_qp *q, const struct sr_request *r,
			   const struct ibv_wc *wc, struct sr_group_message *m)
{
	struct surviving s = {q, r, wc, m, 0};

	if (!q->in || !r)
		return false;
	sr_progress_until((uint32_t)q->in->key.from, find_surviving, &s);
	if (!find_surviving(&s))
		return false;
	q->received = s.number + 1;
	return true;
}

/*
 * A receive that completed before the queue pair was reset, and was polled only now: it brought
 * the next message of that time.
 */
static bool received_before_reset(struct sr_thread *t, struct sr_request_qp *q,
				  const struct ibv_wc *wc)
{
	struct sr_group_channel *in = q->in_before;
	bool is_shared = q->qp->srq;
	struct sr_recv_queue *receives = is_shared ? sr_request_receives(q) : &q->receives_before;
	struct sr_recv_request *r =
	    receives ? sr_recv_queue_match(receives, is_shared, wc->wr_id) : NULL;
	struct sr_group_message m;

	if (!in || !r || r->wr_id != wc->wr_id || atomic_load(&in->posted) <= q->received_before)
		return false;
	sr_channel_message(in, q->received_before, &m);
	if (!fits(q, in, (struct sr_request *)r, wc, &m))
		return false;
	q->received_before++;
	sr_recv_queue_remove(receives, r);
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		compare_received(t, q, in, (struct sr_request *)r, wc->byte_len, &m);
	sr_channel_release(in, &m);
	sr_request_free((struct sr_request *)r);
	return true;
}

/* What another message has left there is not known. */
static bool is_overlapped(const struct sr_recv_queue *q, const struct sr_request *r)
{
	for (uint32_t i = 0; i < r->num_sge; i++)
		if (sharing(q, r->sge[i].addr, r->sge[i].length) != SR_SHARED_SHIFTED)
			return false;
	return r->num_sge;
}

/* Where several receives have this wr_id, nobody knows which one it came into, nor from whom. */
static void received_datagram(struct sr_thread *t, struct sr_request_qp *q, struct sr_recv_queue *receives, const struct ibv_wc *wc)
{
	struct sr_group_channel *in = NULL;
	struct sr_group_message m;
	struct sr_request *r;
	bool certain = true;

	if (q->qp->srq)
		r = find_shared(t, receives, q, wc->wr_id, NULL, &certain);
	else
		r = (struct sr_request *)sr_recv_queue_match(receives, false, wc->wr_id);
	if (!r)
		return;
	sr_recv_queue_remove(receives, &r->receive);
	if (certain) {
		in = sr_datagram_received(q, r, wc, &m);
		if (!in && is_overlapped(receives, r))
			in = sr_datagram_in_order(q, wc, &m);
		compare_received(t, q, in, r, wc->byte_len, in ? &m : NULL);
	}
	sr_request_free(r);
}

/* A receive of the queue pair has completed. */
static void received(struct sr_thread *t, struct sr_request_qp *q, const struct ibv_wc *wc)
{
	struct sr_recv_queue *receives = sr_request_receives(q);
	bool is_shared = q->qp->srq, known, certain = true;
	struct sr_group_message m;
	struct sr_request *r;

	if (!receives)
		return;
	if (q->qp->qp_type == IBV_QPT_UD) {
		received_datagram(t, q, receives, wc);
		return;
	}
	r = (struct sr_request *)sr_recv_queue_match(receives, is_shared, wc->wr_id);
	if (q->qp->qp_type == IBV_QPT_UC)
		known = next_surviving(q, r, wc, &m);
	else
		known = next_message(t, q, &m);
	if (is_shared && q->qp->qp_type != IBV_QPT_UC)
		r = find_shared(t, receives, q, wc->wr_id, known ? &m : NULL, &certain);
	if (r)
		sr_recv_queue_remove(receives, &r->receive);
	if (r && certain && wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		compare_received(t, q, q->in, r, wc->byte_len, known ? &m : NULL);
	if (known)
		sr_channel_release(q->in, &m);
	sr_request_free(r);
}

/* Computes the effect of an atomic from the old value, which its completion brought. */
static void resolve(const struct sr_request_qp *q, const struct sr_request *r, const void *found)
{
	struct sr_carried_atomic a = {
	    .opcode = r->opcode,
	    .remote_addr = r->remote_addr,
	    .compare_add = r->compare_add,
	    .swap = r->swap,
	};
	uint64_t old;

	sr_group_copy(&old, found, sizeof(old));
	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		a.result = old + r->compare_add;
	else
		a.result = old == r->compare_add ? r->swap : old;
	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || old == r->compare_add)
		sr_history_resolve((uint32_t)q->peer, r->change, r->remote_addr, a.result);
	else
		sr_history_void((uint32_t)q->peer, r->change, r->remote_addr);
	if (sr_request_is_transferred(q))
		sr_transfer_atomic(q->out, &a);
}

static uint32_t list_length(const struct sr_request *r)
{
	uint32_t length = 0;

	for (uint32_t i = 0; i < r->num_sge; i++)
		length += r->sge[i].length;
	return length;
}

/*
 * The proxy makes a READ again only when it completes: by then everything that it has to follow
 * has happened.
 */
static void read_again(const struct sr_request_qp *q, const struct sr_request *r)
{
	if (r->opcode == IBV_WR_RDMA_READ && q->peer >= 0 && sr_request_is_transferred(q))
		sr_transfer_read(q->out, r->remote_addr, list_length(r));
}

/* The piece of the poll's record that lacks what a READ brought into exposed memory; NULL: there is none. */
static struct sr_received_piece *lacks_exposed(struct sr_thread *t, const struct sr_request *r)
{
	for (uint32_t i = 0; i < t->received.count; i++) {
		struct sr_received_piece *p = &t->received.pieces[i];

		if (p->fetched && p->exposed && !p->filled && r->num_sge == 1 && r->sge[0].addr == (uintptr_t)p->addr &&
		    r->sge[0].length == p->length)
			return p;
	}
	return NULL;
}

/* If nothing fits, its checksum is found wrong.  False: a member ended before. */
static bool find_read_again(const struct sr_thread *t, const struct sr_read_again *again, uint8_t *bytes, struct sr_received_piece *expected)
{
	bool by_several = false;

	if (sr_read_again(t, again, bytes, &by_several))
		return true;
	expected->in_doubt = by_several ? again->addr : 0;
	return sr_group_early_end() < 0;
}

/* Loads will find it there, and READs of others: it is one more write, by this process. */
static void fetch_again_into_exposed(struct sr_thread *t, const struct sr_request_qp *q, const struct sr_request *r)
{
	/* Not in the library's image, which has to stay small.  sr_group_lock guards it. */
	static uint8_t *bytes;
	struct sr_received_piece *expected = lacks_exposed(t, r);
	struct sr_piece piece;

	if (!expected || expected->length > SR_READ_AGAIN_MOST)
		return;
	if (!bytes && !(bytes = sr_alloc(SR_READ_AGAIN_MOST)))
		return;
	piece = (struct sr_piece){.p = bytes, .length = r->sge[0].length};
	if (!find_read_again(t, &(struct sr_read_again){(uint32_t)q->peer, r->remote_addr, expected->length, expected->checksum, expected->mask}, bytes,
			     expected))
		return;
	expected->filled = expected->length;
	expected->sender = sr_group_memory->member[q->peer].rank;
	expected->sum = sr_checksum(bytes, expected->length, 0);
	sr_history_add(sr_group_self, &r->origin, SR_GROUP_BYTES, r->sge[0].addr, NULL, &piece, 1);
}

/* The record lacks what a READ brought: puts it into the program's memory, as far as it can be told. */
static void fetch_again(const struct sr_value *v, const struct sr_request_qp *q, const struct sr_request *r, uint32_t from)
{
	struct sr_received_piece *expected = left_out(v, true);
	const struct sr_read_again again = {.member = (uint32_t)q->peer,
					    .addr = r->remote_addr + from,
					    .length = v->length,
					    .checksum = expected ? expected->checksum : 0,
					    .mask = expected ? expected->mask : 0};

	if (!expected || v->length != expected->length)
		return;
	if (!find_read_again(v->t, &again, (uint8_t *)(uintptr_t)v->bytes, expected))
		return;
	expected->filled = v->length;
	expected->sender = sr_group_memory->member[q->peer].rank;
}

/* What a READ has brought is a write by this process, for loads that found it before its completion was polled. */
static void note_fetched(const struct sr_value *v, const struct sr_request *r)
{
	static uint8_t bytes[PAGE]; /* sr_group_lock guards it */
	struct sr_piece piece = {.p = bytes, .length = v->length};

	if (!may_be_loaded_before(v))
		return;
	sr_group_copy(bytes, v->bytes, v->length);
	sr_history_add(sr_group_self, &r->origin, SR_GROUP_ENTERED, v->addr, NULL, &piece, 1);
}

/* The result of an atomic over which that of a later request may have come tells nothing: it may have written anything. */
static void fetched(struct sr_thread *t, struct sr_request_qp *q, struct sr_request *r)
{
	struct walk w = {.q = q, .r = r, .length = list_length(r)};
	struct sr_value v = {.t = t};

	read_again(q, r);
	if (q->peer >= 0 && r->num_sge == 1)
		fetch_again_into_exposed(t, q, r);
	while (next_piece(&w, &v)) {
		/* What was fetched into exposed memory enters when a load finds it. */
		if (!v.bytes || is_exposed(v.addr, v.length))
			continue;
		if (q->peer >= 0)
			fetch_again(&v, q, r, w.from);
		if (q->peer >= 0)
			sr_value_fetched(&v, (uint32_t)q->peer, r->remote_addr + w.from, &r->origin, r->fetch + r->num_sge);
		else
			sr_value_from_outside(&v);
		if (q->peer >= 0)
			note_fetched(&v, r);
		if (!w.from && v.length >= sizeof(uint64_t) && r->change && !sr_fetch_from(r->fetch + r->num_sge, v.addr, sizeof(uint64_t)))
			resolve(q, r, v.bytes);
	}
}

/* The first one from after a reset is also the end of those from before it. */
static void received_now(struct sr_thread *t, struct sr_request_qp *q, const struct ibv_wc *wc)
{
	if (q->in_before)
		sr_request_forget_receives_before(q);
	received(t, q, wc);
}

/* The owner of send_events: a completion ends the sends up to its own. */
struct ending {
	struct sr_thread *t;
	struct sr_request_qp *q;
};

static void ended(void *owner, struct sr_send_request *s, bool succeeded)
{
	const struct ending *e = owner;
	struct sr_request *r = (struct sr_request *)s;

	/* A request posted before a reset went to the peer of that time. */
	if (!succeeded || r->fetched || sr_send_queue_is_stale(&e->q->sends, s))
		return;
	if (sr_op(r->opcode) & SR_OP_SCATTERS) {
		fetched(e->t, e->q, r);
		sr_fetch_ended(r->fetch, r->num_sge);
	}
	r->fetched = true;
}

static void left(void *owner, struct sr_send_request *s)
{
	sr_request_free((struct sr_request *)s);
}

static const struct sr_send_events send_events = {.ended = ended, .left = left};

static void sent(struct sr_thread *t, struct sr_request_qp *q, struct sr_send_request *r,
		 enum ibv_wc_status status)
{
	struct ending e = {t, q};

	if (r)
		sr_send_queue_complete(&q->sends, r, status, &send_events, &e);
}

/*
 * A failed completion has no valid opcode, so the completion queue or the wr_id must show whether
 * it is a send or a receive.  If both are possible, or none is known, then neither this completion
 * nor a later failure allows a conclusion about earlier sends: any of them may have failed.
 */
static void failed(struct sr_thread *t, struct sr_request_qp *q, const struct ibv_cq *cq,
		   const struct ibv_wc *wc)
{
	struct sr_recv_queue *receives = sr_request_receives(q);
	struct sr_send_request *send = NULL;
	struct sr_recv_request *receive = NULL;

	if (cq == q->qp->send_cq)
		send = sr_send_queue_find(&q->sends, wc->wr_id, wc->status, wc->opcode);
	if (cq == q->qp->recv_cq && q->reset_at)
		receive = sr_recv_find(q->receives_before.first, wc->wr_id);
	if (receive)
		receives = &q->receives_before;
	else if (cq == q->qp->recv_cq && receives)
		receive = sr_recv_find(receives->first, wc->wr_id);
	if (cq == q->qp->send_cq && !send == !receive)
		sr_send_queue_doubt(&q->sends);
	if (send && receive) {
		sr_send_queue_remove(&q->sends, send);
		sr_request_free((struct sr_request *)send);
	} else if (send) {
		sent(t, q, send, wc->status);
	} else if (receive) {
		sr_recv_queue_remove(receives, receive);
		sr_request_free((struct sr_request *)receive);
	}
}

void sr_request_completed(struct sr_thread *t, struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct sr_request_qp *q = sr_request_qp_numbered(cq->context, wc->qp_num);

	bool may_be_from_before;

	if (!q)
		return;
	may_be_from_before = sr_request_may_be_from_before(q);
	if (wc->status != IBV_WC_SUCCESS)
		failed(t, q, cq, wc);
	else if (wc->opcode & IBV_WC_RECV && may_be_from_before && received_before_reset(t, q, wc))
		return;
	else if (wc->opcode & IBV_WC_RECV)
		received_now(t, q, wc);
	else
		sent(t, q, sr_send_queue_find(&q->sends, wc->wr_id, wc->status, wc->opcode),
		     wc->status);
}
