/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queues.c: the recorder's bookkeeping around the calls on queue pairs, shared
 * receive queues and completion queues: every request goes out under a wr_id of
 * the shim's (see wq.c), and every completion comes back under the program's.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "shim/core/call.h"
#include "shim/verbs/clocks/posts.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/memory/heap.h"
#include "shim/core/hooks.h"
#include "shim/memory/map.h"
#include "shim/verbs/objects.h"
#include "logd/base/opcodes.h"
#include "shim/verbs/ops.h"
#include "shim/verbs/polls.h"
#include "shim/core/thread.h"
#include "shim/verbs/regions.h"

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

/*
 * After an error, each of the shim's own requests has a completion as well: there
 * must be room for those of queues as deep as add_qp makes them.
 */
int sr_cq_depth(int cqe)
{
	return sr_clocks_is_member() && cqe > 0 && cqe < INT_MAX / SR_CLOCK_REQUESTS
		   ? cqe * SR_CLOCK_REQUESTS
		   : cqe;
}

uint64_t sr_invoke_create_cq(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t deeper[] = {a[0], (uint64_t)sr_cq_depth((int)a[1]), a[2], a[3], a[4]};
	struct ibv_cq *cq = (void *)sr_real(d, deeper);

	if (!cq && deeper[1] != a[1])
		cq = (void *)sr_real(d, a);
	if (cq)
		sr_cq_add(cq);
	return (uintptr_t)cq;
}

uint64_t sr_invoke_resize_cq(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t deeper[] = {a[0], (uint64_t)sr_cq_depth((int)a[1])};
	uint64_t result = sr_real(d, deeper);

	return (int)result != 0 && deeper[1] != a[1] ? sr_real(d, a) : result;
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

/* How many completions the program sees, or what the provider said.  *room: how many more it has room for. */
static inline __attribute__((always_inline)) int poll_queue(const struct sr_call_desc *d, struct ibv_cq *cq,
						      struct ibv_wc *wc, int *room,
						      struct sr_received *received)
{
	int kept = 0, n, left;

	received->count = 0;
	sr_poll_begins(received);
	/* In the place of the shim's own, there may be more of the program's behind them. */
	do {
		n = (int)sr_real_operation(d, cq->context, cq, (uint64_t)*room, wc + kept);
		left = n > 0 ? sr_wq_complete(wc + kept, n, received) : 0;
		kept += left;
		*room -= left;
	} while (left < n);
	sr_poll_ends(received);
	sr_clocks_look();
	return kept || n >= 0 ? kept : n;
}

/* A queue that it finds empty holds nothing of the queue pairs that were retired before. */
static uint64_t __attribute__((noinline)) poll_after_retirement(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_cq *cq = (void *)a[0];
	struct sr_wq *retired = sr_cq_retired(cq);
	int room = (int)a[1], n;

	n = poll_queue(d, cq, (void *)a[2], &room, (void *)a[3]);
	if (retired && n >= 0 && room > 0)
		sr_cq_drained(cq, retired);
	return (uint64_t)(int64_t)n;
}

uint64_t sr_invoke_poll_cq(const struct sr_call_desc *d, uint64_t *a)
{
	int room = (int)a[1];

	if (__builtin_expect(sr_any_retired, 0))
		return poll_after_retirement(d, a);
	return (uint64_t)(int64_t)poll_queue(d, (void *)a[0], (void *)a[2], &room, (void *)a[3]);
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
	const struct ibv_srq_init_attr_ex *attr = (void *)a[1];
	struct ibv_srq *srq = (void *)sr_real(d, a);

	if (!srq)
		return 0;
	add_srq(srq, &attr->attr);
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD && attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD)
		sr_clocks_add_srq(srq, attr->pd, attr->xrcd);
	return (uintptr_t)srq;
}

uint64_t sr_invoke_destroy_srq(const struct sr_call_desc *d, uint64_t *a)
{
	/* Before the real call: right after it another thread may be given the same address. */
	struct ibv_srq *srq = (struct ibv_srq *)a[0];
	struct sr_wq *wq = sr_map_take(&srqs, a[0]);
	struct sr_clock_srq *clock = sr_clocks_take_srq(srq);
	uint64_t result = sr_real(d, a);

	if ((int)result == 0) {
		sr_wq_retire(wq, NULL);
		sr_clocks_remove_srq(clock);
		return result;
	}
	if (wq)
		put(&srqs, srq, wq);
	sr_clocks_put_back_srq(srq, clock);
	return result;
}

/* ------------------------------------------------------------ queue pairs */

/* What the program asked for, and whether there is room for requests of the shim's besides. */
struct room {
	struct ibv_qp_cap asked;
	int sig_all;
	bool made;
};

static void add_qp(struct ibv_qp *qp, const struct ibv_qp_cap *cap, struct ibv_pd *pd,
		   const struct ibv_xrcd *xrcd, const struct room *room)
{
	struct sr_qp *q;

	q = sr_alloc_zeroed(sizeof(*q));
	if (!q)
		return;
	q->qp = qp;
	q->sig_all = room->sig_all;
	/*
	 * Completions that the shim does not see (of a queue made by direct
	 * verbs) would show its wr_ids to the program.
	 */
	if (sr_cq_known(qp->send_cq))
		q->sq = sr_wq_create(qp->context, cap->max_send_sge, cap->max_send_wr, true);
	if (!qp->srq && sr_cq_known(qp->recv_cq))
		q->rq = sr_wq_create(qp->context, cap->max_recv_sge, cap->max_recv_wr, false);
	q->clock = sr_clocks_add_qp(qp, pd, xrcd);
	if (q->clock) {
		q->clock->has_room = room->made && q->sq;
		q->clock->sig_all = room->sig_all;
		q->clock->limit = room->asked.max_send_wr;
		q->clock->max_inline = room->asked.max_inline_data;
		q->clock->granted_inline = cap->max_inline_data;
		sr_wq_set_clock(q->sq, q->clock);
		sr_clocks_name_qp(q->clock);
	}
	put(&qps, qp, q);
}

/*
 * Room for the shim's own requests.  The program is shown what it asked for,
 * and a queue that signals all requests is made as one that signals those that
 * say so: copy_sends says it for each of the program's.
 */
static void ask_for_room(const struct room *room, struct ibv_qp_cap *cap, int *sig_all)
{
	*cap = room->asked;
	cap->max_send_wr *= SR_CLOCK_REQUESTS;
	if (cap->max_inline_data < SR_CLOCK_WORD_BYTES)
		cap->max_inline_data = SR_CLOCK_WORD_BYTES;
	if (!cap->max_send_sge)
		cap->max_send_sge = 1;
	*sig_all = 0;
}

static bool may_carry(enum ibv_qp_type type, const struct ibv_qp_cap *cap)
{
	return sr_clocks_is_member() && sr_clocks_go_over(type) && cap->max_send_wr &&
	       cap->max_send_wr < UINT32_MAX / SR_CLOCK_REQUESTS;
}

/* granted: what the provider made of it. */
static void show_asked(const struct room *room, struct ibv_qp_cap *cap, int *sig_all,
		       struct ibv_qp_cap *granted)
{
	*granted = *cap;
	*sig_all = room->sig_all;
	if (!room->made)
		return;
	cap->max_send_wr = room->asked.max_send_wr;
	if (room->asked.max_inline_data < SR_CLOCK_WORD_BYTES)
		cap->max_inline_data = room->asked.max_inline_data;
	if (!room->asked.max_send_sge)
		cap->max_send_sge = 0;
}

static struct ibv_qp *create_with_room(const struct sr_call_desc *d, uint64_t *a,
				       struct ibv_qp_cap *cap, int *sig_all, struct room *room,
				       enum ibv_qp_type type)
{
	struct ibv_qp *qp = NULL;

	*room = (struct room){.asked = *cap, .sig_all = *sig_all};
	if (may_carry(type, cap)) {
		ask_for_room(room, cap, sig_all);
		qp = (void *)sr_real(d, a);
	}
	room->made = qp != NULL;
	if (qp)
		return qp;
	*cap = room->asked;
	*sig_all = room->sig_all;
	return (void *)sr_real(d, a);
}

uint64_t sr_invoke_create_qp(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp_init_attr *attr = (void *)a[1];
	struct ibv_qp_cap granted;
	struct room room;
	struct ibv_qp *qp =
	    create_with_room(d, a, &attr->cap, &attr->sq_sig_all, &room, attr->qp_type);

	show_asked(&room, &attr->cap, &attr->sq_sig_all, &granted);
	if (qp)
		add_qp(qp, &granted, (struct ibv_pd *)a[0], NULL, &room);
	return (uintptr_t)qp;
}

uint64_t sr_invoke_create_qp_ex(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp_init_attr_ex *attr = (void *)a[1];
	bool builds = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags;
	uint64_t ops = builds ? attr->send_ops_flags : 0;
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	struct ibv_xrcd *xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL;
	struct ibv_qp_cap granted;
	struct room room;
	struct ibv_qp *qp;

	if (builds && may_carry(attr->qp_type, &attr->cap))
		attr->send_ops_flags |=
		    IBV_QP_EX_WITH_RDMA_WRITE |
		    (attr->qp_type == IBV_QPT_UC ? 0 : IBV_QP_EX_WITH_RDMA_READ);
	qp = create_with_room(d, a, &attr->cap, &attr->sq_sig_all, &room, attr->qp_type);
	if (builds)
		attr->send_ops_flags = ops;
	show_asked(&room, &attr->cap, &attr->sq_sig_all, &granted);
	if (qp)
		add_qp(qp, &granted, pd, xrcd, &room);
	return (uintptr_t)qp;
}

/* Of what the shim asks for besides nothing is shown: the program sees what it asked for. */
#define HIDDEN (IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MAX_QP_RD_ATOMIC)

static void copy_hidden(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
}

uint64_t sr_invoke_query_qp(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	struct ibv_qp_attr *attr = (void *)a[1];
	struct ibv_qp_init_attr *init = (void *)a[3];
	uint64_t result = sr_real(d, a);
	struct sr_clock_qp *c = q ? q->clock : NULL;

	if ((int)result != 0 || !c)
		return result;
	copy_hidden(attr, &c->asked, c->asked_mask);
	if (!c->has_room)
		return result;
	attr->cap.max_send_wr = init->cap.max_send_wr = c->limit;
	if (c->max_inline < SR_CLOCK_WORD_BYTES)
		attr->cap.max_inline_data = init->cap.max_inline_data = c->max_inline;
	init->sq_sig_all = c->sig_all;
	return result;
}

/*
 * Peers write and read the clock region: without these flags that would be the
 * queue pair's end.  And there are READERs besides the program's READs.
 */
static void add_what_clocks_need(const struct sr_clock_qp *c, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS)
		attr->qp_access_flags |=
		    IBV_ACCESS_REMOTE_WRITE |
		    (c->qp->qp_type == IBV_QPT_UC ? 0 : IBV_ACCESS_REMOTE_READ);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr->max_dest_rd_atomic = sr_clocks_answered(c, attr->max_dest_rd_atomic);
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr->max_rd_atomic = sr_clocks_initiated(c, attr->max_rd_atomic);
}

static uint64_t modify(const struct sr_call_desc *d, uint64_t *a, struct sr_clock_qp *c)
{
	const struct ibv_qp_attr *asked = (void *)a[1];
	struct ibv_qp_attr attr;
	uint64_t changed[] = {a[0], (uintptr_t)&attr, a[2]}, result;
	int mask = (int)a[2];

	if (!c)
		return sr_real(d, a);
	attr = *asked;
	/* Before the peer's first request can come. */
	if (mask & IBV_QP_STATE && attr.qp_state == IBV_QPS_RTR)
		sr_clocks_connect(c, &attr);
	if (mask & IBV_QP_STATE && attr.qp_state == IBV_QPS_RTS)
		sr_clocks_connect_again(c);
	add_what_clocks_need(c, &attr, mask);
	result = sr_real(d, changed);
	if ((int)result == 0) {
		copy_hidden(&c->asked, asked, mask);
		c->asked_mask |= mask & HIDDEN;
	}
	return result;
}

uint64_t sr_invoke_modify_qp(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp *qp = (void *)a[0];
	struct ibv_qp_attr *attr = (void *)a[1];
	struct sr_qp *q = sr_qp_find(qp);
	uint64_t result = modify(d, a, q ? q->clock : NULL);
	struct sr_wq *next;

	if ((int)result != 0 || !q || !((int)a[2] & IBV_QP_STATE) ||
	    attr->qp_state != IBV_QPS_RESET)
		return result;
	/* A reset empties the queues; what had completed may still be polled, maybe just now. */
	sr_wq_set_clock(q->sq, NULL);
	sr_clocks_disconnect(q->clock);
	q->posted = 0;
	if (q->sq) {
		next = sr_wq_create_alike(q->sq);
		sr_wq_retire(q->sq, qp->send_cq);
		q->sq = next;
		sr_wq_set_clock(q->sq, q->clock);
	}
	if (q->rq) {
		next = sr_wq_create_alike(q->rq);
		sr_wq_retire(q->rq, qp->recv_cq);
		q->rq = next;
	}
	return result;
}

uint64_t sr_invoke_dealloc_pd(const struct sr_call_desc *d, uint64_t *a)
{
	sr_clocks_drop_pd((struct ibv_pd *)a[0]);
	return sr_real(d, a);
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
		sr_wq_set_clock(q->sq, NULL);
		sr_clocks_remove_qp(q->clock);
		sr_wq_retire(q->sq, send_cq);
		sr_wq_retire(q->rq, recv_cq);
		sr_free(q);
	}
	return result;
}

/* --------------------------------------------------------------- receives */

/*
 * A request, or its list, that lies on a page which is an exposed region because of other things there
 * is copied at once, and the provider is given the copy: each word that is read there takes a
 * fault.
 */
static inline void read_request(void *to, const void *wr, size_t size)
{
	if (sr_regions_is_near(wr))
		sr_exposed_copy(wr, to, size);
	else
		__builtin_memcpy(to, wr, size);
}

static struct ibv_sge *readable_list(struct sr_wqe *wqe, struct ibv_sge *list)
{
	return wqe && wqe->num_sge && sr_regions_is_near(list) ? wqe->sge : list;
}

/*
 * What the provider gets are copies with the shim's wr_ids: the program's own
 * requests may be constant, or used by two threads at once.  It gets them in one
 * post, as they came, with one exception: a chain that is longer than the whole
 * queue, which it is going to refuse somewhere: what was left of it is *rest.
 */
static int copy_recvs(struct sr_wq *wq, struct ibv_recv_wr **rest, struct ibv_recv_wr *copies,
		      uint32_t room)
{
	struct ibv_recv_wr *wr = *rest;
	uint32_t n = 0;

	while (wr && n < room) {
		struct ibv_recv_wr *copy = &copies[n++];
		struct sr_wqe *wqe;

		read_request(copy, wr, sizeof(*copy));
		wqe = sr_wqe_take(wq, copy->wr_id, SR_WQE_RECV, copy->sg_list,
				  (uint32_t)copy->num_sge);
		wr = copy->next;
		copy->next = copy + 1;
		copy->sg_list = readable_list(wqe, copy->sg_list);
		if (wqe)
			copy->wr_id = (uintptr_t)wqe;
	}
	copies[n - 1].next = NULL;
	*rest = wr;
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

static int post_recv_chain(struct sr_wq *wq, const struct sr_call_desc *d,
			   struct ibv_context *context, void *object, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad_wr)
{
	uint32_t room;
	struct ibv_recv_wr *copies = sr_wq_begin_posts(wq, &room), *rest = wr, *bad = NULL;
	int err, n, posted;

	do {
		n = copy_recvs(wq, &rest, copies, room);
		err = (int)sr_real_operation(d, context, object, (uintptr_t)copies, &bad);
		if (!err) {
			wr = rest;
			continue;
		}
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
	struct ibv_qp *qp = (void *)a[0];
	struct sr_qp *q = sr_qp_find(qp);

	if (!q || !q->rq || !a[1])
		return sr_real(d, a);
	return (uint64_t)post_recv_chain(q->rq, d, qp->context, qp, (void *)a[1], (void *)a[2]);
}

uint64_t sr_invoke_post_srq_recv(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_srq *srq = (void *)a[0];
	struct sr_wq *wq = sr_srq_find(srq);

	if (!wq || !a[1])
		return sr_real(d, a);
	return (uint64_t)post_recv_chain(wq, d, srq->context, srq, (void *)a[1], (void *)a[2]);
}

/* ------------------------------------------------------------------ sends */

static struct sr_wqe *take_for_send(struct sr_qp *q, const struct ibv_send_wr *wr)
{
	enum sr_wqe_kind kind =
	    sr_op(wr->opcode) & SR_OP_SCATTERS ? SR_WQE_FETCH : SR_WQE_SOURCE;
	/*
	 * Only where something arrives does the list have to be kept, or where nobody is to read it.
	 * One that is too long for that is refused, with a request as any other's.
	 */
	bool keep = kind == SR_WQE_FETCH || (sr_regions_is_near(wr->sg_list) &&
					     (uint32_t)wr->num_sge <= sr_wq_max_sge(q->sq));
	struct sr_wqe *wqe = sr_wqe_take(q->sq, wr->wr_id, kind, keep ? wr->sg_list : NULL,
					 keep ? (uint32_t)wr->num_sge : 0);

	if (wqe)
		wqe->request.signaled = q->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	return wqe;
}

static bool carries_clocks(const struct sr_qp *q)
{
	return q->clock && q->clock->carries;
}

static bool has_events(const struct sr_qp *q)
{
	return q->clock && (q->clock->carries || q->clock->to_oneself);
}

/* The queue is deeper than the program knows. */
static bool is_full(const struct sr_qp *q)
{
	return q->clock && q->clock->has_room && q->posted - sr_wq_passed(q->sq) >= q->clock->limit;
}

/* A chain as it goes to the provider. */
struct sends {
	struct sr_qp *q;
	struct ibv_send_wr *copies;
	uint32_t n, room;
	bool has_event;
	/* Inline data in exposed regions: where the provider reads it without a fault. */
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
	/* Before the post: its completion may be polled before the post returns. */
	sr_wq_append(s->q->sq, wqe);
}

/*
 * Is the provider going to refuse it?  A CLOCK that goes out for nothing is flushed in
 * a broken queue, and then its completion has an event that the program cannot explain.
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

/* The event of this chain, and what tells the peer of it. */
static void put_clock(struct sends *s, struct sr_wqe *program)
{
	struct ibv_send_wr *copy = &s->copies[s->n];
	struct sr_wqe *wqe;

	s->has_event = true;
	sr_clocks_tick(s->q->clock);
	wqe = carries_clocks(s->q) ? sr_clock_take_before(s->q, program) : NULL;
	if (!wqe)
		return;
	/* The program's own was there. */
	copy[1] = copy[0];
	sr_clock_fill_before(s->q, wqe, copy);
	put_wqe(s, wqe, copy);
	s->n++;
}

/* Is this the last of the chain that fetches? */
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

	/* The READER of a later one serves those that tell nobody of their completion. */
	if (!fetch->request.signaled && !is_last_fetch(wr))
		return;
	wqe = sr_clock_take_behind(s->q, fetch, wr->opcode);
	if (!wqe)
		return;
	s->copies[s->n - 1].send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	sr_clock_fill_behind(s->q, wqe, &s->copies[s->n]);
	put_wqe(s, wqe, &s->copies[s->n++]);
}

/* Returns the next one of the program's. */
static struct ibv_send_wr *copy_send(struct sends *s, const struct ibv_send_wr *wr)
{
	struct sr_qp *q = s->q;
	struct ibv_send_wr *copy = &s->copies[s->n], *next;
	struct sr_wqe *wqe;

	read_request(copy, wr, sizeof(*copy));
	next = copy->next;
	wqe = take_for_send(q, copy);
	if (wqe && has_events(q) && !s->has_event && sr_clock_goes_before(copy->opcode) &&
	    !is_too_long(q, copy))
		put_clock(s, wqe);
	copy = &s->copies[s->n++];
	copy->sg_list = readable_list(wqe, copy->sg_list);
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

/* As much of the chain as there is room for; the first that is left, or NULL. */
static struct ibv_send_wr *copy_sends(struct sends *s, struct ibv_send_wr *wr)
{
	uint32_t most = carries_clocks(s->q) ? SR_CLOCK_REQUESTS : 1;

	s->n = s->inlines_n = 0;
	while (wr && s->n + most <= s->room && !is_full(s->q)) {
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
 * A request that went out and whose READER was refused would never complete: the READER is
 * tried again.  There is room for it, so that is a device that fails by chance or for good.
 */
static int post_copies(const struct sr_call_desc *d, struct ibv_qp *qp, struct sends *s,
		       struct ibv_send_wr **bad)
{
	struct ibv_send_wr *from = s->copies, *end = s->copies + s->n;
	int err;

	for (int tries = 0; tries < READER_TRIES; tries++) {
		err = (int)sr_real_operation(d, qp->context, qp, (uintptr_t)from, bad);
		if (!err || *bad <= s->copies || *bad >= end || !has_role(*bad, SR_WQE_READER))
			break;
		from = *bad;
	}
	return err;
}

/* How many of the program's were posted, of a chain that was refused at `bad`. */
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
	/* A clock went out for a request that did not, or a request without its READER. */
	if (refused > s->copies &&
	    (!is_the_programs(refused - 1) || (refused < end && has_role(refused, SR_WQE_READER))))
		sr_wqe_of(refused[-1].wr_id)->other = NULL;
	for (; refused < end; refused++) {
		struct sr_wqe *wqe = sr_wqe_of(refused->wr_id);

		if (wqe) {
			sr_wq_unappend(s->q->sq, wqe); /* and all behind it */
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
		return 0; /* all of the program's went out */
	*bad_wr = wr;
	return (uint64_t)(int64_t)err;
}

/* An exposed region of the old type is bound by a send of its own: qp, mw, bind. */
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
		q->building = q->batch = q->unread = NULL;
		q->batch_has_event = q->overfull = false;
		q->batch_posted = q->posted;
	}
	return sr_real(d, a);
}

static void end_batch(struct sr_qp *q, bool posted)
{
	for (struct sr_wqe *wqe = posted ? NULL : q->batch; wqe; wqe = (struct sr_wqe *)wqe->request.next)
		if (wqe->role == SR_WQE_CLOCK)
			sr_clock_was_not_posted(q);
	if (!posted && q->batch)
		sr_wq_unappend(q->sq, q->batch);
	if (!posted)
		q->posted = q->batch_posted;
	q->building = q->batch = q->unread = NULL;
	sr_wq_unlock_posts(q->sq);
}

static void append_to_batch(struct sr_qp *q, struct sr_wqe *wqe)
{
	sr_wq_append(q->sq, wqe);
	if (!q->batch)
		q->batch = wqe;
}

/* The scatter list of a READ is known once something else begins. */
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
	wqe = carries_clocks(q) ? sr_clock_take_before(q, program) : NULL;
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
		q->overfull |= is_full(q);
		q->posted++;
		wqe = sr_wqe_take(q->sq, wr_id, kind, NULL, 0);
		q->building = wqe;
		if (q->sig_all)
			ex->wr_flags |= IBV_SEND_SIGNALED;
	}
	if (wqe) {
		wqe->request.signaled = q->sig_all || flags & IBV_SEND_SIGNALED;
		if (has_events(q) && !q->batch_has_event && sr_clock_goes_before(opcode))
			build_clock(q, ex, wqe);
		if (q->clock && q->clock->reads && kind == SR_WQE_FETCH) {
			q->unread = wqe;
			q->unread_opcode = opcode;
			ex->wr_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
		}
		ex->wr_id = (uintptr_t)wqe;
		append_to_batch(q, wqe);
	}
	result = sr_real(d, a);
	ex->wr_id = wr_id; /* the fields are the program's */
	ex->wr_flags = flags;
	return result;
}

/* Of the many that go this way, bindings and local invalidations need no clock. */
uint64_t sr_invoke_wr_send(const struct sr_call_desc *d, uint64_t *a)
{
	enum sr_call_number n = sr_call_number(d);
	bool is_local =
	    n == SR_CALL_wr_bind_mw || n == SR_CALL_wr_local_inv || n == SR_CALL_wr_send_tso;

	return build(d, a, SR_WQE_SOURCE, is_local ? IBV_WR_LOCAL_INV : IBV_WR_SEND);
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
