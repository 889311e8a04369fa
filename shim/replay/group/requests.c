/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * requests.c: the program's queue pairs and what is outstanding on them.
 *
 * A completion says which queue pair it is of, and a wr_id.  Sends complete in
 * order, so one of a send is of the oldest signaled request, with all before it;
 * one of a receive is of the oldest on the queue pair, or of that with its wr_id
 * on a shared queue.
 */
#include <string.h>

#include "shim/replay/group/group.h"
#include "shim/replay/group/own.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/objects.h"
#include "logd/base/opcodes.h"

#define LOOKED_AT 1024 /* outstanding receives, for one that shares its memory */

/* A work request, from its post to its completion. */
struct request {
	struct request *next;
	uint64_t wr_id;
	bool signaled;
	enum ibv_wr_opcode opcode;
	struct sr_group_origin origin;
	uint64_t remote_addr;
	uint64_t compare_add, swap;
	uint64_t change; /* an atomic's entry in the peer's history; 0: none */
	uint32_t imm_data;
	struct sr_buf inlined; /* of the builders, which copy when they are told */
	bool is_inline;
	uint32_t num_sge;
	struct ibv_sge sge[];
};

struct queue {
	struct request *first, *last;
};

struct qp {
	struct ibv_qp *qp;
	bool sig_all;
	int32_t peer;       /* member, or -1 */
	uint32_t connected; /* how often */
	struct sr_group_channel *out, *in;
	uint64_t received; /* messages of `in` */
	struct queue sends, receives;
	struct queue building;
};

static struct sr_map by_address, by_number, shared; /* shared: struct queue of an ibv_srq */

/* ------------------------------------------------------------------ queues */

static struct request *new_request(uint32_t num_sge)
{
	struct request *r =
	    sr_alloc_zeroed(sizeof(struct request) + num_sge * sizeof(struct ibv_sge));

	if (r)
		r->num_sge = num_sge;
	return r;
}

static void append(struct queue *q, struct request *r)
{
	r->next = NULL;
	if (q->last)
		q->last->next = r;
	else
		q->first = r;
	q->last = r;
}

static struct request *pop(struct queue *q)
{
	struct request *r = q->first;

	if (r)
		q->first = r->next;
	if (!q->first)
		q->last = NULL;
	return r;
}

/* Taken out from wherever it is. */
static struct request *take_out(struct queue *q, struct request *r)
{
	struct request *before = q->first;

	if (r == before || !r)
		return r ? pop(q) : NULL;
	while (before->next != r)
		before = before->next;
	before->next = r->next;
	if (q->last == r)
		q->last = before;
	return r;
}

/* The first from here on with this wr_id. */
static struct request *find_id(struct request *r, uint64_t wr_id)
{
	while (r && r->wr_id != wr_id)
		r = r->next;
	return r;
}

static struct request *take(struct queue *q, uint64_t wr_id)
{
	return take_out(q, find_id(q->first, wr_id));
}

static void free_request(struct request *r)
{
	if (r)
		sr_free(r->inlined.p);
	sr_free(r);
}

static void empty(struct queue *q)
{
	struct request *r;

	while ((r = pop(q)))
		free_request(r);
}

/* -------------------------------------------------------------- queue pairs */

/* Numbers are a device's; contexts lie far apart. */
static uint64_t number_key(struct ibv_context *context, uint32_t number)
{
	return ((uint64_t)(uintptr_t)context << 24) ^ number ^ 1ull << 63;
}

static struct qp *find(struct ibv_qp *p)
{
	struct qp *q = sr_map_get(&by_address, (uintptr_t)p);
	void *old;

	if (q)
		return q;
	q = sr_alloc_zeroed(sizeof(*q));
	if (!q)
		return NULL;
	q->qp = p;
	q->peer = -1;
	if (sr_map_put(&by_address, (uintptr_t)p, q, &old) ||
	    sr_map_put(&by_number, number_key(p->context, p->qp_num), q, &old))
		return NULL;
	return q;
}

static void forget(struct ibv_qp *p)
{
	struct qp *q = sr_map_take(&by_address, (uintptr_t)p);

	if (!q)
		return;
	if (sr_map_get(&by_number, number_key(p->context, p->qp_num)) == q)
		sr_map_take(&by_number, number_key(p->context, p->qp_num));
	empty(&q->sends);
	empty(&q->receives);
	empty(&q->building);
	sr_free(q);
}

static void create(struct ibv_qp *p, bool sig_all)
{
	struct qp *q;

	if (!p)
		return;
	forget(p); /* one was there before, and ended without our seeing it */
	q = find(p);
	if (q)
		q->sig_all = sig_all;
}

static struct queue *receives_of(struct qp *q)
{
	struct queue *s;
	void *old;

	if (!q->qp->srq)
		return &q->receives;
	s = sr_map_get(&shared, (uintptr_t)q->qp->srq);
	if (s)
		return s;
	s = sr_alloc_zeroed(sizeof(*s));
	if (s && sr_map_put(&shared, (uintptr_t)q->qp->srq, s, &old))
		return NULL;
	return s;
}

static struct queue *receives_of_shared(struct ibv_srq *srq)
{
	struct ibv_qp any = {.srq = srq};
	struct qp q = {.qp = &any};

	return receives_of(&q);
}

void sr_requests_peer(const struct sr_group_peer *p)
{
	struct ibv_qp *qp = (struct ibv_qp *)(uintptr_t)p->qp;
	struct qp *q = sr_heap_in_library_arena(qp, sizeof(*qp)) ? find(qp) : NULL;
	struct sr_group_key key = {.generation = 0};

	if (!q)
		return;
	q->peer = p->peer;
	if (p->peer < 0 || (uint32_t)p->peer >= sr_group_memory->members) {
		q->peer = -1;
		q->in = q->out = NULL;
		return;
	}
	key.generation = q->connected++;
	key.from = (int32_t)sr_group_self;
	key.to = p->peer;
	key.from_qp = p->qp_num;
	key.to_qp = p->peer_qp_num;
	q->out = sr_channel(&key);
	key.from = p->peer;
	key.to = (int32_t)sr_group_self;
	key.from_qp = p->peer_qp_num;
	key.to_qp = p->qp_num;
	q->in = sr_channel(&key);
	q->received = 0;
}

/* -------------------------------------------------------------------- posts */

/* The memory of its list; NULL pieces where the CPU has none. */
static uint32_t pieces_of(const struct qp *q, const struct request *r, struct sr_piece *pieces,
			  uint32_t room)
{
	uint32_t n = r->num_sge < room ? r->num_sge : room;

	if (r->inlined.len) {
		pieces[0] = (struct sr_piece){r->inlined.p, (uint32_t)r->inlined.len};
		return 1;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct ibv_sge *s = &r->sge[i];

		pieces[i].length = s->length;
		pieces[i].p = r->is_inline
				  ? (void *)(uintptr_t)s->addr
				  : sr_mr_memory(q->qp->context, s->lkey, s->addr, s->length);
	}
	return n;
}

#define MAX_PIECES 256

/* From now on something may come into its list. */
static void expect(struct sr_thread *t, const struct request *r)
{
	for (uint32_t i = 0; i < r->num_sge; i++)
		sr_contents_expected(t, r->sge[i].addr, r->sge[i].length);
}

/* Are its requests made again on queue pairs of a device?  Others lose messages, or have several
 * peers. */
static bool is_transferred(const struct qp *q)
{
	return q->out && q->qp->qp_type == IBV_QPT_RC && sr_group_over_device();
}

/* What it does to the peer; the request is outstanding from now on. */
static void post(struct sr_thread *t, struct qp *q, struct request *r,
		 const struct sr_group_origin *origin)
{
	static struct sr_piece pieces[MAX_PIECES];
	const unsigned does = sr_op(r->opcode);
	const struct sr_transfer_by transfer_by = {.channel = q->out,
					     .opcode = r->opcode,
					     .imm_data = r->imm_data,
					     .remote_addr = r->remote_addr};
	const struct sr_transfer_by *by = is_transferred(q) ? &transfer_by : NULL;
	uint32_t n = 0;

	r->origin = *origin;
	append(&q->sends, r);
	if (does & SR_OP_SCATTERS)
		expect(t, r);
	if (q->peer < 0)
		return;
	if (sr_group_over_device() && !by)
		atomic_fetch_add(&sr_group_memory->proxy.others, 1);
	if (does & SR_OP_GATHERS)
		n = pieces_of(q, r, pieces, MAX_PIECES);
	if (does & SR_OP_CHANGES && does & SR_OP_GATHERS)
		sr_history_add((uint32_t)q->peer, origin, SR_GROUP_BYTES, r->remote_addr, by,
			       pieces, n);
	if (does & SR_OP_ATOMIC)
		r->change = sr_history_add_atomic((uint32_t)q->peer, origin, r->remote_addr);
	if (!(does & SR_OP_RECEIVED) || !q->out)
		return;
	/* Of a WRITE, what it takes a receive for has no bytes, and came with it. */
	if (does & SR_OP_CHANGES)
		sr_channel_send(q->out, origin, r->opcode, NULL, NULL, 0);
	else
		sr_channel_send(q->out, origin, r->opcode, by, pieces, n);
}

static struct request *of_send_wr(const struct qp *q, const struct ibv_send_wr *wr)
{
	struct request *r = new_request(wr->num_sge > 0 ? (uint32_t)wr->num_sge : 0);

	if (!r)
		return NULL;
	r->wr_id = wr->wr_id;
	r->opcode = wr->opcode;
	r->signaled = q->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	r->is_inline = wr->send_flags & IBV_SEND_INLINE;
	r->imm_data = wr->imm_data;
	if (sr_op(wr->opcode) & SR_OP_ATOMIC) {
		r->remote_addr = wr->wr.atomic.remote_addr;
		r->compare_add = wr->wr.atomic.compare_add;
		r->swap = wr->wr.atomic.swap;
	} else if (sr_op(wr->opcode) & SR_OP_REMOTE) {
		r->remote_addr = wr->wr.rdma.remote_addr;
	}
	if (r->num_sge)
		memcpy(r->sge, wr->sg_list, r->num_sge * sizeof(*r->sge));
	return r;
}

static void post_send(struct sr_thread *t, const uint64_t *a, int result)
{
	const struct ibv_send_wr *bad = result ? *(struct ibv_send_wr **)a[2] : NULL;
	struct sr_group_origin origin = sr_progress_post(t);
	struct qp *q = find((struct ibv_qp *)a[0]);

	for (const struct ibv_send_wr *wr = (void *)a[1]; q && wr && wr != bad; wr = wr->next) {
		struct request *r = of_send_wr(q, wr);

		if (r)
			post(t, q, r, &origin);
		origin.request++;
	}
}

static void post_receives(struct sr_thread *t, struct queue *to, const struct ibv_recv_wr *wr,
			  const struct ibv_recv_wr *bad)
{
	for (; to && wr && wr != bad; wr = wr->next) {
		struct request *r = new_request(wr->num_sge > 0 ? (uint32_t)wr->num_sge : 0);

		if (!r)
			return;
		r->wr_id = wr->wr_id;
		if (r->num_sge)
			memcpy(r->sge, wr->sg_list, r->num_sge * sizeof(*r->sge));
		expect(t, r);
		append(to, r);
	}
}

/* ----------------------------------------------------------------- builders */

static void build(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t remote_addr,
		  uint32_t imm_data, uint64_t compare_add, uint64_t swap)
{
	struct qp *q = find(&ex->qp_base);
	struct request *r = new_request(0);

	if (!q || !r)
		return;
	r->wr_id = ex->wr_id;
	r->opcode = opcode;
	r->signaled = q->sig_all || ex->wr_flags & IBV_SEND_SIGNALED;
	r->remote_addr = remote_addr;
	r->imm_data = imm_data;
	r->compare_add = compare_add;
	r->swap = swap;
	append(&q->building, r);
}

/* The list of the request that is being built, in whose place a longer one comes. */
static void set_list(struct ibv_qp_ex *ex, const struct ibv_sge *sge, uint32_t n)
{
	struct qp *q = find(&ex->qp_base);
	struct request *old = q ? q->building.last : NULL, *r, *before;

	r = old ? new_request(n) : NULL;
	if (!r)
		return;
	before = q->building.first;
	while (before != old && before->next != old)
		before = before->next;
	*r = *old;
	r->num_sge = n;
	memcpy(r->sge, sge, n * sizeof(*sge));
	if (q->building.first == old)
		q->building.first = r;
	else
		before->next = r;
	q->building.last = r;
	sr_free(old);
}

static void set_inline(struct ibv_qp_ex *ex, const struct ibv_data_buf *pieces, size_t n)
{
	struct qp *q = find(&ex->qp_base);

	for (size_t i = 0; q && q->building.last && i < n; i++)
		sr_put_raw(&q->building.last->inlined, pieces[i].addr, pieces[i].length);
}

static void post_built(struct sr_thread *t, struct ibv_qp_ex *ex, int result)
{
	struct sr_group_origin origin = sr_progress_post(t);
	struct qp *q = find(&ex->qp_base);
	struct request *r;

	while (q && (r = pop(&q->building))) {
		if (result)
			free_request(r);
		else
			post(t, q, r, &origin);
		origin.request++;
	}
}

/* -------------------------------------------------------------- completions */

static const struct ibv_sge *overlap(const struct request *r, uint64_t addr, uint32_t n)
{
	for (uint32_t i = 0; i < r->num_sge; i++)
		if (r->sge[i].addr < addr + n && addr < r->sge[i].addr + r->sge[i].length)
			return &r->sge[i];
	return NULL;
}

/* Do other receives go to the same memory?  Then it may hold what came after. */
static enum sr_sharing sharing(const struct queue *q, uint64_t addr, uint32_t n)
{
	enum sr_sharing found = SR_NOT_SHARED;
	const struct request *r = q->first;

	for (int i = 0; r && i < LOOKED_AT; i++, r = r->next) {
		const struct ibv_sge *s = overlap(r, addr, n);

		if (s && s->addr != addr)
			return SR_SHARED_SHIFTED;
		if (s)
			found = SR_SHARED_ALIKE;
	}
	return found;
}

/* Does its memory hold what the message brought? */
static bool holds(const struct qp *q, const struct request *r, const struct sr_group_message *m)
{
	uint32_t from = 0;

	for (uint32_t i = 0; i < r->num_sge && from < m->length; i++) {
		const struct ibv_sge *s = &r->sge[i];
		struct sr_value v = {.addr = s->addr};

		v.length = s->length < m->length - from ? s->length : m->length - from;
		v.bytes = sr_mr_memory(q->qp->context, s->lkey, s->addr, v.length);
		if (v.bytes && !sr_value_is_sent(&v, q->in, m, from))
			return false;
		from += v.length;
	}
	return from == m->length;
}

/*
 * Of a shared queue: if several have the same wr_id, that whose memory holds the
 * message; *certain is false if none does.
 */
static struct request *take_shared(struct queue *from, const struct qp *q, uint64_t wr_id,
				   const struct sr_group_message *m, bool *certain)
{
	struct request *first = find_id(from->first, wr_id), *r = first;

	*certain = !first || !find_id(first->next, wr_id);
	if (*certain || !m)
		return take_out(from, first);
	while (r && !holds(q, r, m))
		r = find_id(r->next, wr_id);
	*certain = r != NULL;
	return take_out(from, r ? r : first);
}

static void compare_received(struct sr_thread *t, struct qp *q, const struct request *r,
			     uint32_t length, const struct sr_group_message *m)
{
	const struct queue *others = receives_of(q);
	uint32_t from = 0;

	for (uint32_t i = 0; i < r->num_sge && from < length; i++) {
		const struct ibv_sge *s = &r->sge[i];
		struct sr_value v = {.t = t, .addr = s->addr};

		v.length = s->length < length - from ? s->length : length - from;
		v.bytes = sr_mr_memory(q->qp->context, s->lkey, s->addr, v.length);
		if (v.bytes && v.length && m)
			sr_value_received(&v, q->in, m, from, sharing(others, v.addr, v.length));
		else if (v.bytes && v.length)
			sr_value_from_outside(&v);
		from += v.length;
	}
}

/* The next message of a connection that loses none. */
static bool next_message(struct sr_thread *t, struct qp *q, struct sr_group_message *m)
{
	if (!q->in || !sr_progress_wait_posted(t, q->in, q->received + 1))
		return false;
	sr_channel_message(q->in, q->received++, m);
	return true;
}

/* Of one that may lose some, the next that fits. */
struct surviving {
	const struct qp *q;
	const struct request *r;
	const struct ibv_wc *wc;
	struct sr_group_message *m;
	uint64_t number;
};

static bool fits(const struct surviving *s)
{
	bool by_write = s->m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (by_write || s->wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return by_write && s->wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	return s->m->length == s->wc->byte_len && holds(s->q, s->r, s->m);
}

static bool find_surviving(void *argument)
{
	struct surviving *s = argument;
	uint64_t posted = atomic_load(&s->q->in->posted);

	for (s->number = s->q->received; s->number < posted; s->number++) {
		sr_channel_message(s->q->in, s->number, s->m);
		if (fits(s))
			return true;
	}
	return false;
}

static bool next_surviving(struct qp *q, const struct request *r, const struct ibv_wc *wc,
			   struct sr_group_message *m)
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

/* A message of the queue pair's peer has met this receive. */
static void received(struct sr_thread *t, struct qp *q, const struct ibv_wc *wc)
{
	struct queue *receives = receives_of(q);
	struct request *r = NULL;
	struct sr_group_message m;
	bool known, certain = true;

	if (!receives)
		return;
	if (q->qp->qp_type == IBV_QPT_UC) {
		r = q->qp->srq ? take(receives, wc->wr_id) : pop(receives);
		known = next_surviving(q, r, wc, &m);
	} else {
		known = next_message(t, q, &m);
		r = q->qp->srq ? take_shared(receives, q, wc->wr_id, known ? &m : NULL, &certain)
			       : pop(receives);
	}
	/* Who sent a datagram cannot be told by counting: not compared. */
	if (r && certain && wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM && q->qp->qp_type != IBV_QPT_UD)
		compare_received(t, q, r, wc->byte_len, known ? &m : NULL);
	if (known)
		sr_channel_release(q->in, &m);
	free_request(r);
}

/* What the atomic has done, now that it is known what it found. */
static void resolve(const struct qp *q, const struct request *r, const void *found)
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
	if (is_transferred(q))
		sr_transfer_atomic(q->out, &a);
}

/* A READ is made when it completes: what it was to come after has happened then. */
static void read_again(const struct qp *q, const struct request *r)
{
	uint32_t length = 0;

	for (uint32_t i = 0; i < r->num_sge; i++)
		length += r->sge[i].length;
	if (r->opcode == IBV_WR_RDMA_READ && q->peer >= 0 && is_transferred(q))
		sr_transfer_read(q->out, r->remote_addr, length);
}

static void fetched(struct sr_thread *t, struct qp *q, struct request *r)
{
	uint64_t remote = r->remote_addr;

	read_again(q, r);
	for (uint32_t i = 0; i < r->num_sge; i++) {
		const struct ibv_sge *s = &r->sge[i];
		struct sr_value v = {.t = t, .addr = s->addr, .length = s->length};

		v.bytes = sr_mr_memory(q->qp->context, s->lkey, s->addr, s->length);
		if (v.bytes && v.length && q->peer >= 0)
			sr_value_fetched(&v, (uint32_t)q->peer, remote, &r->origin);
		else if (v.bytes && v.length)
			sr_value_from_outside(&v);
		if (i == 0 && v.bytes && v.length >= sizeof(uint64_t) && r->change)
			resolve(q, r, v.bytes);
		remote += s->length;
	}
}

static void sent(struct sr_thread *t, struct qp *q)
{
	struct request *r;
	bool signaled = false;

	while (!signaled && (r = pop(&q->sends))) {
		signaled = r->signaled;
		if (sr_op(r->opcode) & SR_OP_SCATTERS)
			fetched(t, q, r);
		free_request(r);
	}
}

/* What it is of is told by its wr_id only. */
static void failed(struct qp *q, const struct ibv_wc *wc)
{
	struct request *r = take(&q->sends, wc->wr_id);
	struct queue *receives = receives_of(q);

	if (!r && receives)
		r = take(receives, wc->wr_id);
	free_request(r);
}

static void completed(struct sr_thread *t, struct ibv_context *context, const struct ibv_wc *wc)
{
	struct qp *q = sr_map_get(&by_number, number_key(context, wc->qp_num));

	if (!q)
		return;
	if (wc->status != IBV_WC_SUCCESS)
		failed(q, wc);
	else if (wc->opcode & IBV_WC_RECV)
		received(t, q, wc);
	else
		sent(t, q);
}

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
	};
	completed(t, cq->context, &wc);
}

/* -------------------------------------------------------------------- calls */

bool sr_group_posts(enum sr_call_number n)
{
	return n == SR_CALL_post_send || n == SR_CALL_wr_complete;
}

static struct ibv_qp *qp_of_id(uint64_t id)
{
	return ((struct rdma_cm_id *)id)->qp;
}

/* Back to its beginning: what was outstanding is dropped, without completions. */
static void reset(struct ibv_qp *p)
{
	struct qp *q = find(p);

	if (!q)
		return;
	empty(&q->sends);
	empty(&q->receives);
	empty(&q->building);
	q->in = q->out = NULL;
	q->peer = -1;
}

static void modify(const uint64_t *a)
{
	const struct ibv_qp_attr *attr = (void *)a[1];

	if (a[2] & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		reset((void *)a[0]);
}

/* Calls that make queue pairs and end them.  False: it is none of these. */
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

static void builder_call(enum sr_call_number n, const uint64_t *a)
{
	struct ibv_qp_ex *ex = (void *)a[0];

	switch (n) {
	case SR_CALL_wr_send:
		build(ex, IBV_WR_SEND, 0, 0, 0, 0);
		break;
	case SR_CALL_wr_send_imm:
		build(ex, IBV_WR_SEND_WITH_IMM, 0, (uint32_t)a[1], 0, 0);
		break;
	case SR_CALL_wr_send_inv:
		build(ex, IBV_WR_SEND_WITH_INV, 0, (uint32_t)a[1], 0, 0);
		break;
	case SR_CALL_wr_rdma_write:
		build(ex, IBV_WR_RDMA_WRITE, a[2], 0, 0, 0);
		break;
	case SR_CALL_wr_rdma_write_imm:
		build(ex, IBV_WR_RDMA_WRITE_WITH_IMM, a[2], (uint32_t)a[3], 0, 0);
		break;
	case SR_CALL_wr_rdma_read:
		build(ex, IBV_WR_RDMA_READ, a[2], 0, 0, 0);
		break;
	case SR_CALL_wr_atomic_cmp_swp:
		build(ex, IBV_WR_ATOMIC_CMP_AND_SWP, a[2], 0, a[3], a[4]);
		break;
	case SR_CALL_wr_atomic_fetch_add:
		build(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, a[2], 0, a[3], 0);
		break;
	case SR_CALL_wr_local_inv:
		build(ex, IBV_WR_LOCAL_INV, 0, 0, 0, 0);
		break;
	case SR_CALL_wr_bind_mw:
		build(ex, IBV_WR_BIND_MW, 0, 0, 0, 0);
		break;
	case SR_CALL_wr_atomic_write:
		build(ex, IBV_WR_RDMA_WRITE, a[2], 0, 0, 0);
		set_inline(ex, &(struct ibv_data_buf){(void *)a[3], 8}, 1);
		break;
	case SR_CALL_wr_set_sge:
		set_list(ex, &(struct ibv_sge){a[2], (uint32_t)a[3], (uint32_t)a[1]}, 1);
		break;
	case SR_CALL_wr_set_sge_list:
		set_list(ex, (void *)a[2], (uint32_t)a[1]);
		break;
	case SR_CALL_wr_set_inline_data:
		set_inline(ex, &(struct ibv_data_buf){(void *)a[1], a[2]}, 1);
		break;
	case SR_CALL_wr_set_inline_data_list:
		set_inline(ex, (void *)a[2], a[1]);
		break;
	default:
		break;
	}
}

static void abort_built(struct ibv_qp_ex *ex)
{
	struct qp *q = find(&ex->qp_base);

	if (q)
		empty(&q->building);
}

void sr_requests_call(struct sr_thread *t, enum sr_call_number n, const uint64_t *a,
		      uint64_t result)
{
	int status = (int)result;

	if (queue_pair_call(n, a, result))
		return;
	switch (n) {
	case SR_CALL_post_send:
		post_send(t, a, status);
		break;
	case SR_CALL_post_recv:
		post_receives(t, receives_of(find((struct ibv_qp *)a[0])), (void *)a[1],
			      status ? *(struct ibv_recv_wr **)a[2] : NULL);
		break;
	case SR_CALL_post_srq_recv:
		post_receives(t, receives_of_shared((struct ibv_srq *)a[0]), (void *)a[1],
			      status ? *(struct ibv_recv_wr **)a[2] : NULL);
		break;
	case SR_CALL_wr_start:
	case SR_CALL_wr_abort:
		abort_built((struct ibv_qp_ex *)a[0]);
		break;
	case SR_CALL_wr_complete:
		post_built(t, (struct ibv_qp_ex *)a[0], status);
		break;
	case SR_CALL_poll_cq:
		for (int i = 0; i < status; i++)
			completed(t, ((struct ibv_cq *)a[0])->context, (struct ibv_wc *)a[2] + i);
		break;
	case SR_CALL_start_poll:
	case SR_CALL_next_poll:
		if (!status)
			completed_one(t, (struct ibv_cq_ex *)a[0]);
		break;
	default:
		builder_call(n, a);
	}
}
