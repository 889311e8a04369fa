/* SPDX-License-Identifier: BSD-2-Clause */
/* requests.c: queue pairs from creation to destruction; see requests.h. */
#include "shim/replay/group/requests.h"

#include <errno.h>
#include <string.h>

#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/replay/group/group.h"
#include "shim/verbs/objects.h"

static struct sr_map by_address, by_number, shared; /* shared: struct sr_recv_queue of an ibv_srq */

/* ---------------------------------------------------------------- requests */

bool sr_request_set_list(struct sr_request *r, const struct ibv_sge *sge, uint32_t num_sge)
{
	struct ibv_sge *copy = num_sge ? sr_alloc(num_sge * sizeof(*copy)) : NULL;

	if (num_sge && !copy)
		return false;
	if (num_sge)
		memcpy(copy, sge, num_sge * sizeof(*copy));
	sr_free(r->sge);
	r->sge = copy;
	r->num_sge = num_sge;
	return true;
}

struct sr_request *sr_request_new(const struct ibv_sge *sge, int num_sge)
{
	struct sr_request *r = sr_alloc_zeroed(sizeof(*r));

	if (r && !sr_request_set_list(r, sge, num_sge > 0 ? (uint32_t)num_sge : 0)) {
		sr_free(r);
		return NULL;
	}
	return r;
}

void sr_request_free(struct sr_request *r)
{
	if (!r)
		return;
	sr_free(r->inlined.p);
	sr_free(r->sge);
	sr_free(r);
}

static void empty_receives(struct sr_recv_queue *receives)
{
	struct sr_recv_request *r;

	while ((r = sr_recv_queue_pop(receives)))
		sr_request_free((struct sr_request *)r);
}

static void empty_queues(struct sr_request_qp *q)
{
	struct sr_send_request *send;

	while ((send = sr_send_queue_pop(&q->sends)))
		sr_request_free((struct sr_request *)send);
	empty_receives(&q->receives);
	empty_receives(&q->receives_before);
	sr_request_drop_batch(q);
}

/* -------------------------------------------------------------- queue pairs */

/* Queue pair numbers are per device, so the key has the context's address, too. */
static uint64_t number_key(struct ibv_context *context, uint32_t number)
{
	return ((uint64_t)(uintptr_t)context << 24) ^ number ^ 1ull << 63;
}

struct sr_request_qp *sr_request_qp(struct ibv_qp *p)
{
	struct sr_request_qp *q = sr_map_get(&by_address, (uintptr_t)p);
	void *old;

	if (q)
		return q;
	q = sr_alloc_zeroed(sizeof(*q));
	if (!q)
		return NULL;
	q->qp = p;
	q->peer = -1;
	sr_send_queue_init(&q->sends);
	if (sr_map_put(&by_address, (uintptr_t)p, q, &old) ||
	    sr_map_put(&by_number, number_key(p->context, p->qp_num), q, &old))
		return NULL;
	return q;
}

struct sr_request_qp *sr_request_qp_numbered(struct ibv_context *context, uint32_t number)
{
	return sr_map_get(&by_number, number_key(context, number));
}

struct each {
	void (*f)(struct sr_request_qp *q, void *argument);
	void *argument;
};

static void call_with(void *q, void *each)
{
	struct each *e = each;

	e->f(q, e->argument);
}

void sr_requests_each(void (*f)(struct sr_request_qp *q, void *argument), void *argument)
{
	sr_map_each(&by_address, call_with, &(struct each){f, argument});
}

static void forget(struct ibv_qp *p)
{
	struct sr_request_qp *q = sr_map_take(&by_address, (uintptr_t)p);

	if (!q)
		return;
	if (sr_map_get(&by_number, number_key(p->context, p->qp_num)) == q)
		sr_map_take(&by_number, number_key(p->context, p->qp_num));
	empty_queues(q);
	sr_free(q);
}

static void create(struct ibv_qp *p, bool sig_all)
{
	struct sr_request_qp *q;

	if (!p)
		return;
	forget(p); /* an earlier one at this address, whose destruction the shim did not see */
	q = sr_request_qp(p);
	if (q)
		q->sig_all = sig_all;
}

struct sr_recv_queue *sr_request_receives(struct sr_request_qp *q)
{
	struct sr_recv_queue *s;
	void *old;

	if (!q->qp->srq)
		return &q->receives;
	s = sr_map_get(&shared, (uintptr_t)q->qp->srq);
	if (s)
		return s;
	s = sr_alloc_zeroed(sizeof(*s));
	if (!s || sr_map_put(&shared, (uintptr_t)q->qp->srq, s, &old))
		return NULL;
	s->hashes = sr_alloc_zeroed(SR_RECV_HASHES * sizeof(*s->hashes));
	return s;
}

struct sr_recv_queue *sr_request_receives_of_shared(struct ibv_srq *srq)
{
	struct ibv_qp any = {.srq = srq};
	struct sr_request_qp q = {.qp = &any};

	return sr_request_receives(&q);
}

/* Both directions to the queue pair's peer. */
struct connection {
	int32_t peer; /* member, or -1 */
	struct sr_group_channel *out, *in;
};

static void set_connection(struct sr_request_qp *q, const struct connection *c)
{
	q->peer = c->peer;
	q->out = c->out;
	q->in = c->in;
	q->received = 0;
}

/*
 * The connection that the thread's call makes.  It holds from the call's entry on, as another thread may
 * use it while the call waits, and is looked after at its end (meet_announced): librdmacm knows the peer
 * before it creates the queue pair, so that this call may be the one that creates it.
 */
static __thread struct {
	struct ibv_qp *qp; /* NULL: none */
	struct connection connection;
} announced SR_INITIAL_EXEC;

/*
 * How often these two queue pairs were connected to each other before.  Both ends count alike: a
 * queue pair may have had other peers in between, or have been created later than its peer.
 */
static uint32_t connections_before(const struct sr_group_peer *p)
{
	static struct sr_map connections;
	/* Numbers of queue pairs have 24 bits. */
	uint64_t key = (uint64_t)(p->qp_num & 0xffffff) << 40 |
		       (uint64_t)(p->peer_qp_num & 0xffffff) << 16 | (uint16_t)p->peer;
	uintptr_t before = (uintptr_t)sr_map_get(&connections, key);
	void *old;

	sr_map_put(&connections, key, (void *)(before + 1), &old);
	return (uint32_t)before;
}

static struct connection connection_to(const struct sr_group_peer *p)
{
	struct sr_group_key key = {.generation = 0};
	struct connection c = {.peer = -1};

	if (p->peer < 0 || (uint32_t)p->peer >= sr_group_memory->members)
		return c;
	c.peer = p->peer;
	key.generation = connections_before(p);
	key.from = (int32_t)sr_group_self;
	key.to = p->peer;
	key.from_qp = p->qp_num;
	key.to_qp = p->peer_qp_num;
	c.out = sr_channel(&key);
	key.from = p->peer;
	key.to = (int32_t)sr_group_self;
	key.from_qp = p->peer_qp_num;
	key.to_qp = p->qp_num;
	c.in = sr_channel(&key);
	return c;
}

void sr_requests_peer(const struct sr_group_peer *p)
{
	struct ibv_qp *qp = (struct ibv_qp *)(uintptr_t)p->qp;
	struct sr_request_qp *q = sr_map_get(&by_address, (uintptr_t)qp);

	announced.qp = qp;
	announced.connection = connection_to(p);
	if (q)
		set_connection(q, &announced.connection);
}

/*
 * The call is over: what it announced exists now, whoever created it.  Another thread may have done so
 * since, as a call that waits announces it at its entry.
 */
static void meet_announced(void)
{
	struct ibv_qp *qp = announced.qp;
	struct sr_request_qp *q;

	announced.qp = NULL;
	if (!qp || !sr_heap_in_library_arena(qp, sizeof(*qp)))
		return;
	q = sr_request_qp(qp);
	if (q && (q->in != announced.connection.in || q->out != announced.connection.out))
		set_connection(q, &announced.connection);
}

/* -------------------------------------------------------------------- calls */

static void completed_one(struct sr_thread *t, struct ibv_cq_ex *cq)
{
	const struct sr_completion *c = sr_cq_current(cq);
	struct ibv_wc wc;

	if (!c)
		return;
	wc = (struct ibv_wc){
	    .wr_id = c->wr_id,
	    .status = c->status,
	    .opcode = c->opcode,
	    .byte_len = c->byte_len,
	    .qp_num = c->qp_num,
	    .src_qp = c->src_qp,
	};
	sr_request_completed(t, ibv_cq_ex_to_cq(cq), &wc);
}

bool sr_group_posts(enum sr_call_number n)
{
	return n == SR_CALL_post_send || n == SR_CALL_wr_complete;
}

static struct ibv_qp *qp_of_id(uint64_t id)
{
	return ((struct rdma_cm_id *)id)->qp;
}

/* Resets, and polls that found a completion queue empty, are numbered in one order. */
static uint64_t resets_and_empties;
static struct sr_map emptied; /* the number of a completion queue's last empty poll */

static bool was_empty_since_reset(const struct sr_request_qp *q, const struct ibv_cq *cq)
{
	return (uintptr_t)sr_map_get(&emptied, (uintptr_t)cq) > q->reset_at;
}

static void drop_sends_before(struct sr_request_qp *q)
{
	struct sr_send_request *r;

	while ((r = sr_send_queue_next(&q->sends, NULL)) && sr_send_queue_is_stale(&q->sends, r))
		sr_request_free((struct sr_request *)sr_send_queue_pop(&q->sends));
}

void sr_request_forget_receives_before(struct sr_request_qp *q)
{
	empty_receives(&q->receives_before);
	q->in_before = NULL;
}

bool sr_request_may_be_from_before(struct sr_request_qp *q)
{
	bool sends, receives;

	if (!q->reset_at)
		return false;
	sends = !was_empty_since_reset(q, q->qp->send_cq);
	receives = !was_empty_since_reset(q, q->qp->recv_cq);
	if (!sends)
		drop_sends_before(q);
	if (!receives)
		sr_request_forget_receives_before(q);
	if (!sends && !receives)
		q->reset_at = 0;
	return receives;
}

/* This poll has found nothing, or less than it asked for. */
static void note_empty(const void *cq)
{
	void *old;

	/* It matters only after a reset. */
	if (resets_and_empties)
		sr_map_put(&emptied, (uintptr_t)cq, (void *)(uintptr_t)++resets_and_empties, &old);
}

/*
 * The queue pair is reset: its outstanding requests will never complete.  What has completed may
 * not have been polled yet.
 */
static void reset(struct ibv_qp *p)
{
	struct sr_request_qp *q = sr_request_qp(p);

	if (!q)
		return;
	sr_request_may_be_from_before(q);
	sr_send_queue_reset(&q->sends);
	q->reset_at = ++resets_and_empties;
	if (q->in) {
		q->in_before = q->in;
		q->received_before = q->received;
		empty_receives(&q->receives_before);
		q->receives_before = q->receives;
		q->receives = (struct sr_recv_queue){0};
	}
	empty_receives(&q->receives);
	sr_request_drop_batch(q);
	q->in = q->out = NULL;
	q->peer = -1;
}

static void modify(const uint64_t *a)
{
	const struct ibv_qp_attr *attr = (void *)a[1];

	if (a[2] & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		reset((void *)a[0]);
}

/* An active end point has its queue pair at once; a passive one lends its attributes to those of its requests. */
static struct sr_map signals_all; /* by rdma_cm_id: was sq_sig_all asked for? */

static void create_end_point(struct rdma_cm_id *id, const struct ibv_qp_init_attr *attr)
{
	bool all = attr && attr->sq_sig_all;
	void *old;

	sr_map_take(&signals_all, (uintptr_t)id);
	if (all)
		sr_map_put(&signals_all, (uintptr_t)id, id, &old);
	create(id->qp, all);
}

static void create_like(struct rdma_cm_id *id, const struct rdma_cm_id *listening)
{
	create(id->qp, sr_map_get(&signals_all, (uintptr_t)listening));
}

/* Handles calls that create, modify or destroy queue pairs.  Returns false for other calls. */
static bool queue_pair_call(enum sr_call_number n, const uint64_t *a, uint64_t result)
{
	switch (n) {
	case SR_CALL_ibv_create_qp:
		create((void *)result, ((struct ibv_qp_init_attr *)a[1])->sq_sig_all);
		return true;
	case SR_CALL_create_qp_ex:
		create((void *)result, ((struct ibv_qp_init_attr_ex *)a[1])->sq_sig_all);
		return true;
	case SR_CALL_rdma_create_qp:
		if ((int)result == 0)
			create(qp_of_id(a[0]), ((struct ibv_qp_init_attr *)a[2])->sq_sig_all);
		return true;
	case SR_CALL_rdma_create_qp_ex:
		if ((int)result == 0)
			create(qp_of_id(a[0]), ((struct ibv_qp_init_attr_ex *)a[1])->sq_sig_all);
		return true;
	case SR_CALL_rdma_create_ep:
		if ((int)result == 0)
			create_end_point(*(struct rdma_cm_id **)a[0], (void *)a[3]);
		return true;
	case SR_CALL_rdma_get_request:
		if ((int)result == 0)
			create_like(*(struct rdma_cm_id **)a[1], (void *)a[0]);
		return true;
	case SR_CALL_ibv_modify_qp:
		if ((int)result == 0)
			modify(a);
		return true;
	case SR_CALL_ibv_destroy_qp:
		if ((int)result == 0)
			forget((void *)a[0]);
		return true;
	default:
		return false;
	}
}

static void drop_batch(struct ibv_qp_ex *ex)
{
	struct sr_request_qp *q = sr_request_qp(&ex->qp_base);

	if (q)
		sr_request_drop_batch(q);
}

static void post_receives(struct sr_thread *t, struct sr_recv_queue *to, const uint64_t *a,
			  int status)
{
	sr_request_post_receives(t, to, (void *)a[1], status ? *(struct ibv_recv_wr **)a[2] : NULL);
}

static void request_call(struct sr_thread *t, enum sr_call_number n, const uint64_t *a,
			 uint64_t result)
{
	int status = (int)result;
	struct sr_request_qp *q;

	switch (n) {
	case SR_CALL_post_send:
		sr_request_post_send(t, a, status);
		break;
	case SR_CALL_bind_mw:
		if (!status)
			sr_request_post_bind(t, a);
		break;
	case SR_CALL_post_recv:
		q = sr_request_qp((struct ibv_qp *)a[0]);
		if (q)
			post_receives(t, sr_request_receives(q), a, status);
		break;
	case SR_CALL_post_srq_recv:
		post_receives(t, sr_request_receives_of_shared((struct ibv_srq *)a[0]), a, status);
		break;
	case SR_CALL_wr_start:
	case SR_CALL_wr_abort:
		drop_batch((struct ibv_qp_ex *)a[0]);
		break;
	case SR_CALL_wr_complete:
		sr_request_post_batch(t, (struct ibv_qp_ex *)a[0], status);
		break;
	case SR_CALL_poll_cq:
		for (int i = 0; i < status; i++)
			sr_request_completed(t, (struct ibv_cq *)a[0], (struct ibv_wc *)a[2] + i);
		if (status >= 0 && status < (int)a[1])
			note_empty((void *)a[0]);
		break;
	case SR_CALL_start_poll:
	case SR_CALL_next_poll:
		if (!status)
			completed_one(t, (struct ibv_cq_ex *)a[0]);
		else if (status == ENOENT)
			note_empty((void *)a[0]);
		break;
	default:
		sr_request_build(n, a);
	}
}

void sr_requests_call(struct sr_thread *t, enum sr_call_number n, const uint64_t *a,
		      uint64_t result)
{
	if (!queue_pair_call(n, a, result))
		request_call(t, n, a, result);
	meet_announced();
}
