/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queues.c: the recorder's bookkeeping around the calls on queue pairs, shared
 * receive queues and completion queues: every request goes out under a wr_id of
 * the shim's (see wq.c), and every completion comes back under the program's.
 */
#include <errno.h>
#include <string.h>

#include "shim/heap.h"
#include "shim/hooks.h"
#include "shim/map.h"
#include "shim/objects.h"
#include "shim/ops.h"
#include "shim/thread.h"

static struct sr_map qps;
static struct sr_map srqs;

struct sr_qp *sr_qp_find(struct ibv_qp *qp)
{
	return sr_map_get(&qps, (uintptr_t)qp);
}

struct sr_wq *sr_srq_find(struct ibv_srq *srq)
{
	return sr_map_get(&srqs, (uintptr_t)srq);
}

/* Without memory for it, the object is as good as unknown: its requests keep their own wr_ids. */
static void put(struct sr_map *m, void *object, void *value)
{
	void *old;

	sr_map_put(m, (uintptr_t)object, value, &old);
}

/* ----------------------------------------------------- completion queues */

uint64_t sr_invoke_create_cq(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_cq *cq = (void *)sr_real(d, a);

	if (cq)
		sr_cq_add(cq);
	return (uintptr_t)cq;
}

uint64_t sr_invoke_destroy_cq(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_cq *cq = (struct ibv_cq *)a[0];
	/* Before the real call: right after it another thread may be given the same address. */
	struct sr_cq *c = sr_cq_take(cq);
	struct sr_completion *current = sr_cq_ex_take(cq);
	void *ops = sr_ops_take(cq);
	uint64_t result = sr_real(d, a);

	if ((int)result == 0) {
		sr_cq_free(c);
		sr_free(current);
		sr_free(ops);
		return result;
	}
	sr_cq_put_back(cq, c);
	sr_cq_ex_put_back(cq, current);
	sr_ops_put_back(cq, ops);
	return result;
}

uint64_t sr_invoke_poll_cq(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_wc *wc = (void *)a[2];
	struct sr_wq *retired = sr_cq_retired((struct ibv_cq *)a[0]);
	int n = (int)sr_real(d, a);

	sr_self.arrived_count = 0;
	sr_wq_complete(wc, n);
	if (retired && n >= 0 && n < (int)a[1])
		sr_cq_drained((struct ibv_cq *)a[0], retired);
	return (uint64_t)(int64_t)n;
}

/* ------------------------------------------------- shared receive queues */

static void add_srq(struct ibv_srq *srq, const struct ibv_srq_attr *attr)
{
	struct sr_wq *wq = sr_wq_create(srq->context, attr->max_sge, attr->max_wr, false);

	if (wq)
		put(&srqs, srq, wq);
}

uint64_t sr_invoke_create_srq(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_srq *srq = (void *)sr_real(d, a);

	if (srq)
		add_srq(srq, &((struct ibv_srq_init_attr *)a[1])->attr);
	return (uintptr_t)srq;
}

uint64_t sr_invoke_create_srq_ex(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_srq *srq = (void *)sr_real(d, a);

	if (srq)
		add_srq(srq, &((struct ibv_srq_init_attr_ex *)a[1])->attr);
	return (uintptr_t)srq;
}

uint64_t sr_invoke_destroy_srq(const struct sr_call_desc *d, uint64_t *a)
{
	/* Before the real call: right after it another thread may be given the same address. */
	struct sr_wq *wq = sr_map_take(&srqs, a[0]);
	uint64_t result = sr_real(d, a);

	if ((int)result == 0)
		sr_wq_retire(wq, NULL);
	else if (wq)
		put(&srqs, (void *)a[0], wq);
	return result;
}

/* ------------------------------------------------------------ queue pairs */

static void add_qp(struct ibv_qp *qp, const struct ibv_qp_cap *cap, bool sig_all)
{
	struct sr_qp *q;

	q = sr_alloc_zeroed(sizeof(*q));
	if (!q)
		return;
	q->qp = qp;
	q->sig_all = sig_all;
	/*
	 * Completions that the shim does not see (of a queue made by direct
	 * verbs) would show its wr_ids to the program.
	 */
	if (sr_cq_known(qp->send_cq))
		q->sq = sr_wq_create(qp->context, cap->max_send_sge, cap->max_send_wr, true);
	if (!qp->srq && sr_cq_known(qp->recv_cq))
		q->rq = sr_wq_create(qp->context, cap->max_recv_sge, cap->max_recv_wr, false);
	put(&qps, qp, q);
}

uint64_t sr_invoke_create_qp(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp_init_attr *attr = (void *)a[1];
	struct ibv_qp *qp = (void *)sr_real(d, a);

	if (qp)
		add_qp(qp, &attr->cap, attr->sq_sig_all);
	return (uintptr_t)qp;
}

uint64_t sr_invoke_create_qp_ex(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp_init_attr_ex *attr = (void *)a[1];
	struct ibv_qp *qp = (void *)sr_real(d, a);

	if (qp)
		add_qp(qp, &attr->cap, attr->sq_sig_all);
	return (uintptr_t)qp;
}

uint64_t sr_invoke_modify_qp(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp *qp = (void *)a[0];
	struct ibv_qp_attr *attr = (void *)a[1];
	struct sr_qp *q = sr_qp_find(qp);
	uint64_t result = sr_real(d, a);
	struct sr_wq *next;

	if ((int)result != 0 || !q || !((int)a[2] & IBV_QP_STATE) ||
	    attr->qp_state != IBV_QPS_RESET)
		return result;
	/* A reset empties the queues; what had completed may still be polled. */
	if (q->sq) {
		next = sr_wq_create_alike(q->sq);
		sr_wq_retire(q->sq, qp->send_cq);
		q->sq = next;
	}
	if (q->rq) {
		next = sr_wq_create_alike(q->rq);
		sr_wq_retire(q->rq, qp->recv_cq);
		q->rq = next;
	}
	return result;
}

uint64_t sr_invoke_destroy_qp(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp *qp = (void *)a[0];
	struct ibv_cq *send_cq = qp->send_cq, *recv_cq = qp->recv_cq;
	/* Before the real call: right after it another thread may be given the same address. */
	struct sr_qp *q = sr_map_take(&qps, (uintptr_t)qp);
	void *ops = sr_ops_take(qp);
	uint64_t result = sr_real(d, a);

	if ((int)result != 0) {
		if (q)
			put(&qps, qp, q);
		sr_ops_put_back(qp, ops);
		return result;
	}
	sr_free(ops);
	if (q) {
		sr_wq_retire(q->sq, send_cq);
		sr_wq_retire(q->rq, recv_cq);
		sr_free(q);
	}
	return result;
}

/* --------------------------------------------------------------- receives */

/*
 * What the provider gets are copies with the shim's wr_ids: the program's own
 * requests may be constant, or used by two threads at once.  It gets them in one
 * post, as they came, with one exception: a chain that is longer than the whole
 * queue, which it is going to refuse somewhere.
 */

static int copy_recvs(struct sr_wq *wq, struct ibv_recv_wr *wr)
{
	uint32_t room, n = 0;
	struct ibv_recv_wr *copies = sr_wq_copies(wq, &room);

	for (; wr && n < room; wr = wr->next) {
		struct ibv_recv_wr *copy = &copies[n++];
		struct sr_wqe *wqe =
		    sr_wqe_take(wq, wr->wr_id, SR_WQE_RECV, wr->sg_list, (uint32_t)wr->num_sge);

		*copy = *wr;
		copy->next = copy + 1;
		if (wqe)
			copy->wr_id = (uintptr_t)wqe;
	}
	copies[n - 1].next = NULL;
	return (int)n;
}

/* Those from the refused one on were not posted.  Which the provider did not say: all. */
static int take_back_recvs(struct ibv_recv_wr *copies, int n, const struct ibv_recv_wr *bad)
{
	int refused = bad >= copies && bad < copies + n ? (int)(bad - copies) : 0;

	for (int i = refused; i < n; i++) {
		struct sr_wqe *wqe = sr_wqe_of(copies[i].wr_id);

		if (wqe)
			sr_wqe_give_back(wqe);
	}
	return refused;
}

static int post_recv_chain(struct sr_wq *wq, const struct sr_call_desc *d, uint64_t object,
			   struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	uint32_t room;
	struct ibv_recv_wr *copies = sr_wq_copies(wq, &room), *bad = NULL;
	int err, n, posted;

	sr_wq_lock_posts(wq);
	do {
		posted = n = copy_recvs(wq, wr);
		err = (int)sr_real(d, (uint64_t[]){object, (uintptr_t)copies, (uintptr_t)&bad});
		if (err)
			posted = take_back_recvs(copies, n, bad);
		while (posted--)
			wr = wr->next;
	} while (wr && !err);
	sr_wq_unlock_posts(wq);
	if (err)
		*bad_wr = wr;
	return err;
}

uint64_t sr_invoke_post_recv(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);

	if (!q || !q->rq || !a[1])
		return sr_real(d, a);
	return (uint64_t)post_recv_chain(q->rq, d, a[0], (void *)a[1], (void *)a[2]);
}

uint64_t sr_invoke_post_srq_recv(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_wq *wq = sr_srq_find((struct ibv_srq *)a[0]);

	if (!wq || !a[1])
		return sr_real(d, a);
	return (uint64_t)post_recv_chain(wq, d, a[0], (void *)a[1], (void *)a[2]);
}

/* ------------------------------------------------------------------ sends */

static enum sr_wqe_kind kind_of(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return SR_WQE_FETCH;
	default:
		return SR_WQE_SOURCE;
	}
}

static struct sr_wqe *take_for_send(struct sr_qp *q, const struct ibv_send_wr *wr)
{
	enum sr_wqe_kind kind = kind_of(wr->opcode);
	/* Only where something arrives does the list have to be kept. */
	struct sr_wqe *wqe =
	    sr_wqe_take(q->sq, wr->wr_id, kind, kind == SR_WQE_FETCH ? wr->sg_list : NULL,
			kind == SR_WQE_FETCH ? (uint32_t)wr->num_sge : 0);

	if (wqe)
		wqe->signaled = q->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	return wqe;
}

static int copy_sends(struct sr_qp *q, struct ibv_send_wr *wr)
{
	uint32_t room, n = 0;
	struct ibv_send_wr *copies = sr_wq_copies(q->sq, &room);

	for (; wr && n < room; wr = wr->next) {
		struct ibv_send_wr *copy = &copies[n++];
		struct sr_wqe *wqe = take_for_send(q, wr);

		*copy = *wr;
		copy->next = copy + 1;
		if (!wqe)
			continue;
		copy->wr_id = (uintptr_t)wqe;
		/* Before the post: its completion may be polled before the post returns. */
		sr_wq_append(q->sq, wqe);
	}
	copies[n - 1].next = NULL;
	return (int)n;
}

static int take_back_sends(struct sr_wq *sq, struct ibv_send_wr *copies, int n,
			   const struct ibv_send_wr *bad)
{
	int refused = bad >= copies && bad < copies + n ? (int)(bad - copies) : 0;

	for (int i = refused; i < n; i++) {
		struct sr_wqe *wqe = sr_wqe_of(copies[i].wr_id);

		if (wqe) {
			sr_wq_unappend(sq, wqe); /* and all behind it */
			break;
		}
	}
	return refused;
}

uint64_t sr_invoke_post_send(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	struct ibv_send_wr *wr = (void *)a[1], **bad_wr = (void *)a[2], *copies, *bad = NULL;
	int n, posted, err;
	uint32_t room;

	if (!q || !q->sq || !wr)
		return sr_real(d, a);
	copies = sr_wq_copies(q->sq, &room);
	sr_wq_lock_posts(q->sq);
	do {
		posted = n = copy_sends(q, wr);
		err = (int)sr_real(d, (uint64_t[]){a[0], (uintptr_t)copies, (uintptr_t)&bad});
		if (err)
			posted = take_back_sends(q->sq, copies, n, bad);
		while (posted--)
			wr = wr->next;
	} while (wr && !err);
	sr_wq_unlock_posts(q->sq);
	if (err)
		*bad_wr = wr;
	return (uint64_t)(int64_t)err;
}

/* A window of the old type is bound by a send of its own: qp, mw, bind. */
uint64_t sr_invoke_bind_mw(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	struct ibv_mw_bind bind = *(struct ibv_mw_bind *)a[2];
	struct sr_wqe *wqe = NULL;
	int err;

	if (!q || !q->sq)
		return sr_real(d, a);
	sr_wq_lock_posts(q->sq);
	wqe = sr_wqe_take(q->sq, bind.wr_id, SR_WQE_SOURCE, NULL, 0);
	if (wqe) {
		wqe->signaled = q->sig_all || bind.send_flags & IBV_SEND_SIGNALED;
		bind.wr_id = (uintptr_t)wqe;
		sr_wq_append(q->sq, wqe);
	}
	err = (int)sr_real(d, (uint64_t[]){a[0], a[1], (uintptr_t)&bind});
	if (err && wqe)
		sr_wq_unappend(q->sq, wqe);
	sr_wq_unlock_posts(q->sq);
	return (uint64_t)(int64_t)err;
}

/* ------------------------------------- the work request builders of ibv_qp_ex */

/*
 * The builder's pointers are per queue pair, and set when it is created; the
 * program gets at them through ibv_qp_to_qp_ex.
 */
uint64_t sr_invoke_qp_to_qp_ex(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp_ex *ex = (void *)sr_real(d, a);

	if (ex)
		sr_ops_patch(ex, SR_SOURCE_QP);
	return (uintptr_t)ex;
}

/* A batch is one thread's from wr_start to wr_complete: that is when the queue's posts are locked.
 */
uint64_t sr_invoke_wr_start(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);

	if (q && q->sq) {
		sr_wq_lock_posts(q->sq);
		q->building = q->batch = NULL;
	}
	return sr_real(d, a);
}

static void end_batch(struct sr_qp *q, bool posted)
{
	if (!posted && q->batch)
		sr_wq_unappend(q->sq, q->batch);
	q->building = q->batch = NULL;
	sr_wq_unlock_posts(q->sq);
}

uint64_t sr_invoke_wr_complete(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	int err = (int)sr_real(d, a);

	if (q && q->sq)
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

static uint64_t build(const struct sr_call_desc *d, uint64_t *a, enum sr_wqe_kind kind)
{
	struct ibv_qp_ex *ex = (void *)a[0];
	struct sr_qp *q = sr_qp_find(&ex->qp_base);
	uint64_t wr_id = ex->wr_id;
	uint64_t result;
	struct sr_wqe *wqe = NULL;

	if (q && q->sq) {
		wqe = sr_wqe_take(q->sq, wr_id, kind, NULL, 0);
		q->building = wqe;
	}
	if (wqe) {
		wqe->signaled = q->sig_all || ex->wr_flags & IBV_SEND_SIGNALED;
		ex->wr_id = (uintptr_t)wqe;
		sr_wq_append(q->sq, wqe);
		if (!q->batch)
			q->batch = wqe;
	}
	result = sr_real(d, a);
	ex->wr_id = wr_id; /* the field is the program's */
	return result;
}

uint64_t sr_invoke_wr_send(const struct sr_call_desc *d, uint64_t *a)
{
	return build(d, a, SR_WQE_SOURCE);
}

uint64_t sr_invoke_wr_fetch(const struct sr_call_desc *d, uint64_t *a)
{
	return build(d, a, SR_WQE_FETCH);
}

uint64_t sr_invoke_wr_set_sge(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);

	if (q && q->building && q->building->kind == SR_WQE_FETCH) {
		q->building->sge[0] = (struct ibv_sge){
		    .lkey = (uint32_t)a[1], .addr = a[2], .length = (uint32_t)a[3]};
		q->building->num_sge = 1;
	}
	return sr_real(d, a);
}

uint64_t sr_invoke_wr_set_sge_list(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	uint32_t n = (uint32_t)a[1];

	if (q && q->building && q->building->kind == SR_WQE_FETCH && n <= sr_wq_max_sge(q->sq)) {
		memcpy(q->building->sge, (void *)a[2], n * sizeof(struct ibv_sge));
		q->building->num_sge = n;
	}
	return sr_real(d, a);
}
