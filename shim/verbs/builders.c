/* SPDX-License-Identifier: BSD-2-Clause */
/* builders.c: sends posted by the work request builders of ibv_qp_ex; see posting.h. */
#include <errno.h>
#include <string.h>

#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/verbs/checked.h"
#include "shim/verbs/clock_posts.h"
#include "shim/verbs/counters.h"
#include "shim/verbs/ops.h"
#include "shim/verbs/posting.h"

/*
 * Each queue pair has its own pointers to the builders, set at its creation.  The program gets
 * them by ibv_qp_to_qp_ex, so the shim patches them there.
 */
uint64_t sr_invoke_qp_to_qp_ex(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp_ex *ex = (void *)sr_real(d, a);

	if (ex)
		sr_ops_patch(ex, SR_SOURCE_QP);
	return (uintptr_t)ex;
}

bool sr_qp_is_taken(struct ibv_qp *qp)
{
	const struct sr_qp *q = sr_qp_find(qp);
	const struct sr_thread *builder = q ? q->builder : NULL;

	return builder && builder != &sr_self;
}

/*
 * From wr_start to wr_complete or wr_abort the batch belongs to one thread, so the lock on posts
 * is held for that time.
 */
uint64_t sr_invoke_wr_start(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);

	if (q && q->sq) {
		sr_wq_lock_posts(q->sq);
		q->building = q->batch = q->unread = NULL;
		q->batch_has_event = q->overfull = false;
		q->batch_posted = q->posted;
		q->builder = &sr_self;
	}
	return sr_real(d, a);
}

static void end_batch(struct sr_qp *q, bool posted)
{
	for (struct sr_wqe *wqe = posted ? NULL : q->batch; wqe;
	     wqe = (struct sr_wqe *)wqe->request.next)
		if (wqe->role == SR_WQE_CLOCK)
			sr_clock_was_not_posted(q);
	if (!posted && q->batch)
		sr_wq_unappend(q->sq, q->batch);
	if (!posted)
		q->posted = q->batch_posted;
	q->building = q->batch = q->unread = NULL;
	q->builder = NULL;
	sr_wq_unlock_posts(q->sq);
}

static void append_to_batch(struct sr_qp *q, struct sr_wqe *wqe)
{
	sr_wq_append(q->sq, wqe);
	if (!q->batch)
		q->batch = wqe;
}

/* Adds the READER when the next request begins: only then is the fetch's list complete. */
static void build_reader(struct sr_qp *q, struct ibv_qp_ex *ex)
{
	struct sr_wqe *wqe;

	if (!q->unread)
		return;
	wqe = sr_clock_take_behind(q, q->unread, q->unread_opcode);
	q->unread = NULL;
	if (!wqe)
		return;
	append_to_batch(q, wqe);
	sr_clock_build_behind(q, wqe, ex);
}

static void check_batch(struct sr_qp *q)
{
	uint32_t number = 0;

	for (struct sr_wqe *wqe = q->batch; wqe; wqe = (struct sr_wqe *)wqe->request.next) {
		if (wqe->role == SR_WQE_PROGRAM && wqe->kind == SR_WQE_SOURCE)
			sr_checked_begins(wqe, number);
		number += wqe->role == SR_WQE_PROGRAM;
	}
}

/* Does the request being built keep its list? */
static bool keeps_list(const struct sr_qp *q)
{
	return q && q->building && (q->building->kind == SR_WQE_FETCH || sr_checks_buffers);
}

uint64_t sr_invoke_wr_complete(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	int err;

	if (!q || !q->sq)
		return sr_real(d, a);
	if (q->overfull) {
		sr_real(&sr_calls[SR_CALL_wr_abort], a);
		err = ENOMEM;
	} else {
		build_reader(q, (struct ibv_qp_ex *)a[0]);
		if (sr_checks_buffers)
			check_batch(q);
		err = (int)sr_real(d, a);
	}
	end_batch(q, err == 0);
	return (uint64_t)(int64_t)err;
}

uint64_t sr_invoke_wr_abort(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	uint64_t result = sr_real(d, a);

	if (q && q->sq)
		end_batch(q, false);
	return result;
}

static void build_clock(struct sr_qp *q, struct ibv_qp_ex *ex, struct sr_wqe *program)
{
	struct sr_wqe *wqe;

	q->batch_has_event = true;
	sr_clocks_tick(q->clock);
	wqe = sr_posting_carries_clocks(q) ? sr_clock_take_before(q, program) : NULL;
	if (!wqe)
		return;
	append_to_batch(q, wqe);
	sr_clock_build_before(q, wqe, ex);
}

static uint64_t build(const struct sr_call_desc *d, uint64_t *a, enum sr_wqe_kind kind,
		      enum ibv_wr_opcode opcode)
{
	struct ibv_qp_ex *ex = (void *)a[0];
	struct sr_qp *q = sr_qp_find(&ex->qp_base);
	uint64_t wr_id = ex->wr_id;
	unsigned int flags = ex->wr_flags;
	uint64_t result;
	struct sr_wqe *wqe = NULL;

	if (q && q->sq) {
		build_reader(q, ex);
		q->overfull |= sr_posting_is_full(q);
		q->posted++;
		wqe = sr_wqe_take(q->sq, wr_id, kind, NULL, 0);
		q->building = wqe;
		if (q->sig_all)
			ex->wr_flags |= IBV_SEND_SIGNALED;
	}
	if (wqe) {
		wqe->request.signaled = q->sig_all || flags & IBV_SEND_SIGNALED;
		if (opcode == IBV_WR_RDMA_READ)
			wqe->remote = a[2];
		else if (kind == SR_WQE_FETCH && sr_leaves_out)
			sr_counters_add(sr_clocks_peer(q->clock), a[2], opcode);
		if (sr_posting_has_events(q) && !q->batch_has_event && sr_clock_goes_before(opcode))
			build_clock(q, ex, wqe);
		sr_posting_counts(q, wqe, opcode);
		if (q->clock && q->clock->reads && kind == SR_WQE_FETCH) {
			q->unread = wqe;
			q->unread_opcode = opcode;
			ex->wr_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
		}
		ex->wr_id = (uintptr_t)wqe;
		append_to_batch(q, wqe);
	}
	result = sr_real(d, a);
	ex->wr_id = wr_id; /* these fields belong to the program */
	ex->wr_flags = flags;
	return result;
}

static bool sends_message(enum sr_call_number n)
{
	return n == SR_CALL_wr_send || n == SR_CALL_wr_send_imm || n == SR_CALL_wr_send_inv || n == SR_CALL_wr_rdma_write_imm;
}

/* Serves many builders; bindings, local invalidations, TSO sends and flushes need no CLOCK. */
uint64_t sr_invoke_wr_send(const struct sr_call_desc *d, uint64_t *a)
{
	enum sr_call_number n = sr_call_number(d);
	bool is_local = n == SR_CALL_wr_bind_mw || n == SR_CALL_wr_local_inv || n == SR_CALL_wr_send_tso || n == SR_CALL_wr_flush;

	return build(d, a, SR_WQE_SOURCE, is_local ? IBV_WR_LOCAL_INV : sends_message(n) ? IBV_WR_SEND : IBV_WR_RDMA_WRITE);
}

uint64_t sr_invoke_wr_fetch(const struct sr_call_desc *d, uint64_t *a)
{
	enum sr_call_number n = sr_call_number(d);

	return build(d, a, SR_WQE_FETCH,
		     n == SR_CALL_wr_atomic_cmp_swp     ? IBV_WR_ATOMIC_CMP_AND_SWP
		     : n == SR_CALL_wr_atomic_fetch_add ? IBV_WR_ATOMIC_FETCH_AND_ADD
							: IBV_WR_RDMA_READ);
}

uint64_t sr_invoke_wr_set_sge(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);

	if (keeps_list(q)) {
		q->building->sge[0] = (struct ibv_sge){
		    .lkey = (uint32_t)a[1], .addr = a[2], .length = (uint32_t)a[3]};
		q->building->num_sge = 1;
		if (q->building->kind == SR_WQE_FETCH)
			sr_wqe_note_target(q->building);
	}
	return sr_real(d, a);
}

uint64_t sr_invoke_wr_set_sge_list(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	uint32_t n = (uint32_t)a[1];

	if (keeps_list(q) && n <= sr_wq_max_sge(q->sq)) {
		memcpy(q->building->sge, (void *)a[2], n * sizeof(struct ibv_sge));
		q->building->num_sge = n;
		if (q->building->kind == SR_WQE_FETCH)
			sr_wqe_note_target(q->building);
	}
	return sr_real(d, a);
}
