/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_pairs.c: queue pairs from creation to destruction.  In a member of the group they get
 * room for the shim's own requests, which the program does not see.
 */
#include <errno.h>

#include "logd/base/say.h"
#include "shim/core/hooks.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/ops.h"
#include "shim/verbs/picks.h"

struct sr_map sr_qps;

/* On failure the queue pair is treated as unknown: its requests keep the program's wr_ids. */
static void put(struct ibv_qp *qp, struct sr_qp *q)
{
	void *old;

	sr_map_put(&sr_qps, (uintptr_t)qp, q, &old);
}

/* What the program asked for, and whether the queue has room for the shim's requests. */
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
	 * Only if the shim knows the completion queue: one created by direct verbs would show
	 * the shim's wr_ids to the program.
	 */
	if (sr_cq_known(qp->send_cq))
		q->sq = sr_wq_create(qp->context, cap->max_send_sge, cap->max_send_wr, true);
	if (!qp->srq && sr_cq_known(qp->recv_cq))
		q->rq = sr_wq_create(qp->context, cap->max_recv_sge, cap->max_recv_wr, false);
	/* Nobody knows which of the shared receives datagrams will come into. */
	if (qp->srq && qp->qp_type == IBV_QPT_UD)
		sr_clocks_meet_stranger();
	q->clock = sr_clocks_add_qp(qp, pd, xrcd);
	if (q->clock) {
		q->clock->has_room = room->made && q->sq;
		q->clock->sig_all = room->sig_all;
		q->clock->limit = room->asked.max_send_wr;
		q->clock->max_inline = room->asked.max_inline_data;
		q->clock->granted_inline = cap->max_inline_data;
		sr_wq_set_clock(q->sq, q->clock);
		sr_wq_set_clock(q->rq, q->clock);
		sr_clocks_name_qp(q->clock);
	}
	put(qp, q);
}

/*
 * Asks for room for the shim's own requests; show_asked hides this from the program.  A queue
 * that signals all requests is created as one that signals on demand, and copy_send (post_send.c)
 * makes each request of the program signaled.
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

static bool may_have_clocks(enum ibv_qp_type type, const struct ibv_qp_cap *cap)
{
	return sr_clocks_is_member() && sr_clocks_go_over(type) && cap->max_send_wr &&
	       cap->max_send_wr < UINT32_MAX / SR_CLOCK_REQUESTS;
}

/* Restores the program's values.  granted: gets what the provider granted. */
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
	if (may_have_clocks(type, cap)) {
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

/*
 * IBV_QP_EX_WITH_FLUSH and IBV_QP_EX_WITH_ATOMIC_WRITE.  A build with older headers does not have these builders: what they
 * post would not be seen.
 */
#ifdef SR_HAS_WR_FLUSH
#define UNKNOWN_FLUSH 0u
#else
#define UNKNOWN_FLUSH (1u << 11)
#endif
#ifdef SR_HAS_WR_ATOMIC_WRITE
#define UNKNOWN_ATOMIC_WRITE 0u
#else
#define UNKNOWN_ATOMIC_WRITE (1u << 12)
#endif

static bool refuses_unknown(uint64_t ops)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const bool flushes = ops & UNKNOWN_FLUSH;

	if (!flushes && !(ops & UNKNOWN_ATOMIC_WRITE))
		return false;
	if (!atomic_flag_test_and_set(&said))
		sr_say("a queue pair with %s is refused: this recorder does not know %s; run the program without it, as on "
		       "a device that cannot do it",
		       flushes ? "FLUSH" : "ATOMIC WRITE", flushes ? "wr_flush" : "wr_atomic_write");
	errno = EOPNOTSUPP;
	return true;
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

	if (refuses_unknown(ops))
		return 0;
	if (builds && may_have_clocks(attr->qp_type, &attr->cap))
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

/* The attributes that the shim changes; queries return the program's values of them. */
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
 * Peers write and read the clock region; without these flags, that would break the queue pair.
 * READERs need capacity in addition to that of the program's READs.
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
	/* Before the real call, because the peer's requests can arrive from then on. */
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

/* Where messages of its peer may have come; NULL: nowhere. */
static struct sr_wq *receives_of(const struct ibv_qp *qp, const struct sr_qp *q)
{
	if (!q || qp->state < IBV_QPS_RTR)
		return NULL;
	return qp->srq ? sr_srq_find(qp->srq) : q->rq;
}

uint64_t sr_invoke_modify_qp(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp *qp = (void *)a[0];
	struct ibv_qp_attr *attr = (void *)a[1];
	struct sr_received *received = (void *)a[d->nargs];
	struct sr_qp *q = sr_qp_find(qp);
	struct sr_wq *receives = receives_of(qp, q), *next;
	uint64_t result = modify(d, a, q ? q->clock : NULL);

	sr_received_none(received);
	if ((int)result != 0 || !q || !((int)a[2] & IBV_QP_STATE) ||
	    attr->qp_state != IBV_QPS_RESET)
		return result;
	/*
	 * A reset empties the queues, but a thread may still poll earlier completions, even at
	 * this moment.  So the queues are retired and replaced.
	 */
	sr_picks_stop(); /* completions of before may come */
	sr_wq_set_clock(q->sq, NULL);
	sr_wq_set_clock(q->rq, NULL);
	sr_clocks_disconnect(q->clock);
	q->posted = 0;
	if (q->sq) {
		next = sr_wq_create_alike(q->sq);
		sr_wq_abandon(q->sq, received);
		sr_wq_retire(q->sq, qp->send_cq);
		q->sq = next;
		sr_wq_set_clock(q->sq, q->clock);
	}
	sr_wq_abandon(receives, received);
	if (q->rq) {
		next = sr_wq_create_alike(q->rq);
		sr_wq_retire(q->rq, qp->recv_cq);
		q->rq = next;
		sr_wq_set_clock(q->rq, q->clock);
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
	/* Before the real call: as soon as it returns, another thread may get the same address. */
	struct sr_qp *q = sr_map_take(&sr_qps, (uintptr_t)qp);
	struct sr_wq *receives = receives_of(qp, q);
	void *ops = sr_ops_take(qp);
	struct sr_received *received = (void *)a[d->nargs];
	uint64_t result = sr_real(d, a);

	sr_received_none(received);
	if ((int)result != 0) {
		if (q)
			put(qp, q);
		sr_ops_put_back(qp, ops);
		return result;
	}
	sr_free(ops);
	if (q) {
		sr_wq_set_clock(q->sq, NULL);
		sr_wq_set_clock(q->rq, NULL);
		sr_clocks_remove_qp(q->clock);
		sr_wq_abandon(q->sq, received);
		sr_wq_abandon(receives, received);
		sr_wq_retire(q->sq, send_cq);
		sr_wq_retire(q->rq, recv_cq);
		sr_free(q);
	}
	return result;
}

/* librdmacm destroys the queue pair by the call above, in the same thread: that call says what the queues had. */
uint64_t sr_invoke_destroy_qp_of_id(const struct sr_call_desc *d, uint64_t *a)
{
	struct sr_received *received = (void *)a[d->nargs];

	sr_received_none(received);
	return sr_real(d, a);
}
