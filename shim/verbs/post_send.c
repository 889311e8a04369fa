/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post_send.c: sends posted by ibv_post_send and ibv_bind_mw; see posting.h.  The shim posts its
 * own requests around those of the program (clock_posts.h).
 */
#include <errno.h>

#include "logd/base/opcodes.h"
#include "shim/core/hooks.h"
#include "shim/verbs/checked.h"
#include "shim/verbs/clock_posts.h"
#include "shim/verbs/counters.h"
#include "shim/verbs/held.h"
#include "shim/verbs/posting.h"

static void note_remote(const struct sr_qp *q, struct sr_wqe *wqe, const struct ibv_send_wr *wr)
{
	if (sr_op(wr->opcode) & SR_OP_ATOMIC)
		sr_counters_add(sr_clocks_peer(q->clock), wr->wr.atomic.remote_addr, wr->opcode);
	else
		wqe->remote = wr->wr.rdma.remote_addr;
}

static bool is_checked(const struct ibv_send_wr *wr)
{
	return sr_checks_buffers && sr_op(wr->opcode) & SR_OP_GATHERS && !(wr->send_flags & IBV_SEND_INLINE);
}

static struct sr_wqe *take_for_send(struct sr_qp *q, const struct ibv_send_wr *wr)
{
	enum sr_wqe_kind kind = sr_op(wr->opcode) & SR_OP_SCATTERS ? SR_WQE_FETCH : SR_WQE_SOURCE;
	/*
	 * The shim keeps the scatter list if data will arrive in it, or if the list lies on a
	 * partially registered page, where the provider should not read it, or if the data is checked.  In the latter
	 * cases a list that is too long to keep goes to the provider as it is, which refuses it.
	 */
	bool keep = kind == SR_WQE_FETCH || ((sr_regions_is_near(wr->sg_list) || is_checked(wr)) &&
					     (uint32_t)wr->num_sge <= sr_wq_max_sge(q->sq));
	struct sr_wqe *wqe = sr_wqe_take(q->sq, wr->wr_id, kind, keep ? wr->sg_list : NULL,
					 keep ? (uint32_t)wr->num_sge : 0);

	if (wqe)
		wqe->request.signaled = q->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	if (wqe && kind == SR_WQE_FETCH)
		sr_wqe_note_target(wqe);
	if (wqe && kind == SR_WQE_FETCH && sr_leaves_out)
		note_remote(q, wqe, wr);
	return wqe;
}

/* The chain that the provider gets. */
struct sends {
	struct sr_qp *q;
	struct ibv_send_wr *copies;
	uint32_t n, room;
	uint32_t number; /* of the program's next request in the call */
	bool has_event;
	/* Inline data in exposed regions: lists with addresses that can be read without fault. */
	struct ibv_sge *inlines;
	uint32_t inlines_n;
};

#define INLINES_MAX  32
#define READER_TRIES 8

static bool is_inline_in_exposed(const struct ibv_send_wr *wr)
{
	if (!sr_regions_on || !(wr->send_flags & IBV_SEND_INLINE) || wr->num_sge > INLINES_MAX)
		return false;
	for (int i = 0; i < wr->num_sge; i++)
		if (!sr_exposed_covers((void *)wr->sg_list[i].addr, wr->sg_list[i].length))
			return false;
	return true;
}

static void take_from_backing(struct sends *s, struct ibv_send_wr *copy)
{
	struct ibv_sge *list = s->inlines + s->inlines_n;

	if (s->inlines_n + (uint32_t)copy->num_sge > INLINES_MAX)
		return;
	for (int i = 0; i < copy->num_sge; i++) {
		list[i] = copy->sg_list[i];
		list[i].addr = (uintptr_t)sr_exposed_backing((void *)list[i].addr);
	}
	copy->sg_list = list;
	s->inlines_n += (uint32_t)copy->num_sge;
}

static void put_wqe(struct sends *s, struct sr_wqe *wqe, struct ibv_send_wr *copy)
{
	copy->wr_id = (uintptr_t)wqe;
	/* Before the post: another thread may poll the completion before the post returns. */
	sr_wq_append(s->q->sq, wqe);
}

/*
 * Will the provider refuse this request?  Then it must not get a CLOCK: in a broken queue that
 * CLOCK would be flushed, and its completion would cause an event that the program cannot
 * explain.
 */
static bool is_too_long(const struct sr_qp *q, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	if (wr->num_sge > (int)sr_wq_max_sge(q->sq))
		return true;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return false;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length > q->clock->granted_inline;
}

/* Draws the event of this chain and adds the CLOCK that brings it to the peer. */
static void put_clock(struct sends *s, struct sr_wqe *program)
{
	struct ibv_send_wr *copy = &s->copies[s->n];
	struct sr_wqe *wqe;

	s->has_event = true;
	sr_clocks_tick(s->q->clock);
	wqe = sr_posting_carries_clocks(s->q) ? sr_clock_take_before(s->q, program) : NULL;
	if (!wqe)
		return;
	/* Moves the program's request, which was copied there, behind the CLOCK. */
	copy[1] = copy[0];
	sr_clock_fill_before(s->q, wqe, copy);
	put_wqe(s, wqe, copy);
	s->n++;
}

/* Is this the last fetch of the chain? */
static bool is_last_fetch(const struct ibv_send_wr *wr)
{
	for (wr = wr->next; wr; wr = wr->next)
		if (sr_op(wr->opcode) & SR_OP_SCATTERS)
			return false;
	return true;
}

static void put_reader(struct sends *s, struct sr_wqe *fetch, const struct ibv_send_wr *wr)
{
	struct sr_wqe *wqe;

	/* The READER of a later fetch serves an unsignaled one, too. */
	if (!fetch->request.signaled && !is_last_fetch(wr))
		return;
	wqe = sr_clock_take_behind(s->q, fetch, wr->opcode);
	if (!wqe)
		return;
	s->copies[s->n - 1].send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	sr_clock_fill_behind(s->q, wqe, &s->copies[s->n]);
	put_wqe(s, wqe, &s->copies[s->n++]);
}

/* Returns the next request of the program's chain. */
static struct ibv_send_wr *copy_send(struct sends *s, const struct ibv_send_wr *wr)
{
	struct sr_qp *q = s->q;
	struct ibv_send_wr *copy = &s->copies[s->n], *next;
	struct sr_wqe *wqe;

	sr_posting_read(copy, wr, sizeof(*copy));
	next = copy->next;
	wqe = take_for_send(q, copy);
	if (wqe && is_checked(copy))
		sr_checked_begins(wqe, s->number);
	s->number++;
	if (wqe && sr_posting_has_events(q) && !s->has_event &&
	    sr_clock_goes_before(copy->opcode) && !is_too_long(q, copy))
		put_clock(s, wqe);
	copy = &s->copies[s->n++];
	sr_posting_counts(q, wqe, copy->opcode);
	copy->sg_list = sr_posting_list(wqe, copy->sg_list);
	if (q->sig_all)
		copy->send_flags |= IBV_SEND_SIGNALED;
	if (is_inline_in_exposed(copy))
		take_from_backing(s, copy);
	if (!wqe)
		return next;
	put_wqe(s, wqe, copy);
	if (q->clock && q->clock->reads && wqe->kind == SR_WQE_FETCH)
		put_reader(s, wqe, copy);
	return next;
}

/* Copies as much of the chain as there is room for.  Returns the first request left, or NULL. */
static struct ibv_send_wr *copy_sends(struct sends *s, struct ibv_send_wr *wr)
{
	uint32_t most = sr_posting_carries_clocks(s->q) ? SR_CLOCK_REQUESTS : 1;

	s->n = s->inlines_n = 0;
	while (wr && s->n + most <= s->room && !sr_posting_is_full(s->q)) {
		wr = copy_send(s, wr);
		s->q->posted++;
	}
	for (uint32_t i = 0; i < s->n; i++)
		s->copies[i].next = i + 1 < s->n ? &s->copies[i + 1] : NULL;
	return wr;
}

static bool is_the_programs(const struct ibv_send_wr *copy)
{
	const struct sr_wqe *wqe = sr_wqe_of(copy->wr_id);

	return !wqe || wqe->role == SR_WQE_PROGRAM;
}

static bool has_role(const struct ibv_send_wr *copy, enum sr_wqe_role role)
{
	const struct sr_wqe *wqe = sr_wqe_of(copy->wr_id);

	return wqe && wqe->role == role;
}

/*
 * A fetch whose READER was refused would never complete, so the READER is posted again.  The
 * queue has room for it, so a refusal means that the device fails, temporarily or for good.
 */
static int post_copies(const struct sr_call_desc *d, struct ibv_qp *qp, struct sends *s,
		       struct ibv_send_wr **bad)
{
	struct ibv_send_wr *from = s->copies, *end = s->copies + s->n;
	int err;

	if (__builtin_expect(sr_held_any, 0) && sr_held_keep(d, qp, from))
		return 0;
	for (int tries = 0; tries < READER_TRIES; tries++) {
		err = (int)sr_real_operation(d, qp->context, qp, (uintptr_t)from, bad);
		if (!err || *bad <= s->copies || *bad >= end || !has_role(*bad, SR_WQE_READER))
			break;
		from = *bad;
	}
	return err;
}

/*
 * Takes back the requests from `bad` on, where the provider refused the chain.  Returns how many
 * requests of the program were posted.
 */
static int take_back_sends(struct sends *s, const struct ibv_send_wr *bad)
{
	struct ibv_send_wr *end = s->copies + s->n, *refused;
	int posted = 0;

	refused = bad >= s->copies && bad < end ? s->copies + (bad - s->copies) : s->copies;
	for (struct ibv_send_wr *copy = s->copies; copy < refused; copy++)
		posted += is_the_programs(copy);
	for (struct ibv_send_wr *copy = refused; copy < end; copy++) {
		s->q->posted -= is_the_programs(copy);
		if (has_role(copy, SR_WQE_CLOCK))
			sr_clock_was_not_posted(s->q);
	}
	/* A CLOCK was posted without its request, or a request without its READER. */
	if (refused > s->copies &&
	    (!is_the_programs(refused - 1) || (refused < end && has_role(refused, SR_WQE_READER))))
		sr_wqe_of(refused[-1].wr_id)->other = NULL;
	for (; refused < end; refused++) {
		struct sr_wqe *wqe = sr_wqe_of(refused->wr_id);

		if (wqe) {
			sr_wq_unappend(s->q->sq, wqe); /* and all requests behind it */
			break;
		}
	}
	return posted;
}

uint64_t sr_invoke_post_send(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp *qp = (void *)a[0];
	struct ibv_sge inlines[INLINES_MAX];
	struct sends s = {.q = sr_qp_find(qp), .inlines = inlines};
	struct ibv_send_wr *wr = (void *)a[1], **bad_wr = (void *)a[2], *bad = NULL, *rest;
	int posted, err;

	if (!s.q || !s.q->sq || !wr)
		return sr_real(d, a);
	s.copies = sr_wq_begin_posts(s.q->sq, &s.room);
	do {
		rest = copy_sends(&s, wr);
		if (!s.n) {
			err = ENOMEM;
			break;
		}
		err = post_copies(d, qp, &s, &bad);
		if (!err) {
			wr = rest;
			continue;
		}
		posted = take_back_sends(&s, bad);
		while (posted--)
			wr = wr->next;
	} while (wr && !err);
	sr_wq_unlock_posts(s.q->sq);
	if (!wr)
		return 0; /* all of the program's requests were posted */
	*bad_wr = wr;
	return (uint64_t)(int64_t)err;
}

/* ibv_bind_mw (qp, mw, bind) binds a type 1 memory window by a send request of its own. */
uint64_t sr_invoke_bind_mw(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	struct ibv_mw_bind bind = *(struct ibv_mw_bind *)a[2];
	struct sr_wqe *wqe = NULL;
	int err;

	if (!q || !q->sq)
		return sr_real(d, a);
	sr_wq_lock_posts(q->sq);
	if (sr_posting_is_full(q)) {
		sr_wq_unlock_posts(q->sq);
		return ENOMEM; /* as without the room that clocks need */
	}
	wqe = sr_wqe_take(q->sq, bind.wr_id, SR_WQE_SOURCE, NULL, 0);
	if (wqe) {
		wqe->request.signaled = q->sig_all || bind.send_flags & IBV_SEND_SIGNALED;
		bind.wr_id = (uintptr_t)wqe;
		sr_wq_append(q->sq, wqe);
	}
	if (q->sig_all)
		bind.send_flags |= IBV_SEND_SIGNALED;
	q->posted++;
	err = (int)sr_real(d, (uint64_t[]){a[0], a[1], (uintptr_t)&bind});
	if (err && wqe)
		sr_wq_unappend(q->sq, wqe);
	if (err)
		q->posted--;
	sr_wq_unlock_posts(q->sq);
	return (uint64_t)(int64_t)err;
}
