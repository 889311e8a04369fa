/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/read_trace.h"
#include "replay/knowledge.h"
#include "replay/log_decode.h"
#include "replay/window_records.h"

/* Calls of one rank, before another one may be more in need. */
#define QUANTUM	      2048

/* Messages on their way on one queue pair, before the receiver is gone on with first. */
#define MANY_MESSAGES 65536

/* In a send queue. */
#define MANY_REQUESTS 65536

/* ------------------------------------------------------------- queue pairs */

/* A ring of things in their order; it grows. */
struct ring {
	void *p;
	size_t first, used, room; /* a power of two */
};

/* A request in a send queue. */
struct request {
	struct sr_position at;
	uint64_t wr_id, length, remote, first_sge;
	uint16_t number;
	uint8_t opcode;
	bool signaled, told;
	bool fetches, fetched;
	bool stale; /* from before a reset: what had completed then may still be polled */
};

/* One of a batch that is being built. */
struct built {
	struct request rq;
	uint64_t checksum;
	uint32_t rkey;
};

/* A message that the other end has not told of yet. */
struct message {
	struct sr_position at;
	uint64_t length, checksum;
	uint16_t number;
	uint8_t opcode;
};

struct qp {
	uint64_t address;
	uint32_t qp_num, type;
	bool sig_all;
	bool broken; /* after an error: what completes may be none of its requests */
	bool deaf;   /* what it receives is not understood: it is not matched any more */
	size_t end;
	struct ring requests; /* struct request */
	struct ring messages; /* struct message: sent, not received */
	struct built *batch;
	size_t batch_n, batch_room;
};

static void *ring_at(const struct ring *r, size_t i, size_t bytes)
{
	return (char *)r->p + ((r->first + i) & (r->room - 1)) * bytes;
}

/* Room for one more, behind the others; NULL: no memory. */
static void *ring_push(struct ring *r, size_t bytes)
{
	if (r->used == r->room) {
		size_t room = r->room ? 2 * r->room : 16;
		char *more = malloc(room * bytes);

		if (!more)
			return NULL;
		for (size_t i = 0; i < r->used; i++)
			memcpy(more + i * bytes, ring_at(r, i, bytes), bytes);
		free(r->p);
		*r = (struct ring){.p = more, .used = r->used, .room = room};
	}
	return ring_at(r, r->used++, bytes);
}

static void ring_pop(struct ring *r)
{
	r->first++;
	r->used--;
}

#define REQUEST_AT(q, i) ((struct request *)ring_at(&(q)->requests, i, sizeof(struct request)))
#define MESSAGE_AT(q, i) ((struct message *)ring_at(&(q)->messages, i, sizeof(struct message)))

/* ------------------------------------------------------------------- ranks */

enum blocked {
	NOT_BLOCKED,
	BY_EVENT,   /* an order names an event of a rank that is not there yet */
	BY_MESSAGE, /* a receive without the send */
	BY_MANY,    /* it sends, and the receiver is far behind */
};

struct rank {
	struct sr_log_rank *log;
	struct sr_log_call call;
	bool has_call, entered, over;
	size_t completion, segment; /* how far a poll is */
	enum blocked blocked;
	size_t blocked_on;
	uint64_t blocked_event;
	struct qp *blocked_qp; /* whose messages it waits for, or has too many of */
	struct qp **qps;
	size_t qps_n, qps_room;
	struct sr_keymap by_address, by_number; /* to the place in qps */
};

struct process {
	const struct sr_links *links;
	const struct sr_process_hooks *hooks;
	struct sr_process_counts *counts;
	struct sr_error *err;
	struct sr_knowledge *knowledge;
	struct rank *ranks;
	size_t n;
	size_t of_member[SR_CLOCK_MEMBERS]; /* rank of a member of the clocks */
	struct qp **qp_of_end;
	uint64_t size;
};

static struct qp *add_qp(struct rank *r, uint64_t address, uint32_t qp_num, uint32_t type,
			 bool sig_all)
{
	struct qp *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	*q = (struct qp){.address = address,
			 .qp_num = qp_num,
			 .type = type,
			 .sig_all = sig_all,
			 .end = SR_NO_END};
	if (r->qps_n == r->qps_room) {
		size_t room = r->qps_room ? 2 * r->qps_room : 16;
		struct qp **more = realloc(r->qps, room * sizeof(*more));

		if (!more) {
			free(q);
			return NULL;
		}
		r->qps = more;
		r->qps_room = room;
	}
	r->qps[r->qps_n] = q;
	if (sr_keymap_put(&r->by_address, address, r->qps_n) ||
	    (qp_num && sr_keymap_put(&r->by_number, qp_num, r->qps_n))) {
		free(q);
		return NULL;
	}
	r->qps_n++;
	return q;
}

static void free_qp(struct qp *q)
{
	free(q->requests.p);
	free(q->messages.p);
	free(q->batch);
	free(q);
}

static struct qp *qp_at(const struct rank *r, uint64_t address)
{
	uint64_t at;

	return sr_keymap_get(&r->by_address, address, &at) ? r->qps[at] : NULL;
}

/* One that the trace did not tell of (librdmacm made it): it is a queue pair all the same. */
static struct qp *qp_at_or_new(struct rank *r, uint64_t address)
{
	struct qp *q = qp_at(r, address);

	return q ? q : add_qp(r, address, 0, IBV_QPT_RC, false);
}

static struct qp *qp_numbered(const struct rank *r, uint32_t qp_num)
{
	uint64_t at;

	return sr_keymap_get(&r->by_number, qp_num, &at) ? r->qps[at] : NULL;
}

static const struct sr_end *end_of(const struct process *p, const struct qp *q)
{
	return q->end == SR_NO_END ? NULL : &p->links->ends[q->end];
}

/* The rank at the other end. */
static size_t peer_of(const struct process *p, const struct qp *q)
{
	const struct sr_end *e = end_of(p, q);

	return !e || e->peer == SR_NO_END ? SR_NO_RANK : p->links->ends[e->peer].rank;
}

/* The queue pair there, if its rank has come so far. */
static struct qp *other_end(const struct process *p, const struct qp *q)
{
	const struct sr_end *e = end_of(p, q);

	return !e || e->peer == SR_NO_END ? NULL : p->qp_of_end[e->peer];
}

static uint32_t link_flags(const struct process *p, const struct qp *q)
{
	const struct sr_end *e = end_of(p, q);

	return e && e->ambiguous ? SR_PLAN_AMBIGUOUS : 0;
}

/* Where in the memory of the rank what a key and an address name is. */
static uint64_t address_of(const struct sr_keymap *keys, uint32_t key, uint64_t iova)
{
	uint64_t difference;

	return sr_keymap_get(keys, key, &difference) ? iova - difference : iova;
}

/* ------------------------------------------------------------ control path */

static int connect_ends(struct process *p, size_t rank, const struct sr_log_call *c)
{
	struct rank *r = &p->ranks[rank];
	size_t n;
	const size_t *ends = sr_links_at(p->links, rank, c->thread, c->sn, &n);

	for (size_t i = 0; i < n; i++) {
		const struct sr_end *e = &p->links->ends[ends[i]];
		struct qp *q = qp_at(r, e->qp);

		/* librdmacm's; or its memory was used again. */
		if (!q || q->qp_num != e->qp_num)
			q = add_qp(r, e->qp, e->qp_num, e->type, q ? q->sig_all : false);
		if (!q)
			return -ENOMEM;
		q->end = ends[i];
		p->qp_of_end[ends[i]] = q;
	}
	return 0;
}

static void reset(struct qp *q)
{
	for (size_t i = 0; i < q->requests.used; i++)
		REQUEST_AT(q, i)->stale = true;
	q->broken = false;
}

static int control(struct process *p, size_t rank, const struct sr_log_call *c)
{
	struct rank *r = &p->ranks[rank];
	struct sr_log_create_qp made;
	struct sr_log_modify_qp m;
	struct sr_log_cm cm;
	struct qp *q;

	switch (c->what) {
	case SR_WHAT_CREATE_QP:
	case SR_WHAT_CREATE_QP_EX:
		if (sr_log_get_create_qp(c, &made) && made.qp &&
		    !add_qp(r, made.qp, made.qp_num, made.type, made.sig_all))
			return -ENOMEM;
		break;
	case SR_WHAT_CM_CREATE_QP:
		if (sr_log_get_cm(c, &cm) && cm.qp &&
		    !add_qp(r, cm.qp, cm.qp_num, cm.qp_type, cm.sig_all > 0))
			return -ENOMEM;
		break;
	case SR_WHAT_MODIFY_QP:
		if (sr_log_get_modify_qp(c, &m) && m.mask & IBV_QP_STATE &&
		    m.attr.qp_state == IBV_QPS_RESET && (q = qp_at(r, m.qp)))
			reset(q);
		break;
	default:
		break;
	}
	return connect_ends(p, rank, c);
}

/* ------------------------------------------------------------------- posts */

static bool sends_message(uint8_t opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return true;
	default:
		return false;
	}
}

static bool fetches(uint8_t opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_one_sided(uint8_t opcode)
{
	return fetches(opcode) || opcode == IBV_WR_RDMA_WRITE ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_ATOMIC_WRITE;
}

/* A request is in the queue now; rq's own fields are filled in. */
static int posted(struct process *p, size_t rank, struct qp *q, const struct request *rq,
		  uint64_t checksum, uint32_t rkey)
{
	struct request *in_queue;
	struct message *m;
	size_t to = peer_of(p, q);
	const struct qp *other = other_end(p, q);

	in_queue = ring_push(&q->requests, sizeof(*in_queue));
	if (!in_queue)
		return -ENOMEM;
	*in_queue = *rq;
	if (sends_message(rq->opcode) && to != SR_NO_RANK && !(other && other->deaf)) {
		m = ring_push(&q->messages, sizeof(*m));
		if (!m)
			return -ENOMEM;
		*m = (struct message){.at = rq->at,
				      .length = rq->length,
				      .checksum = checksum,
				      .number = rq->number,
				      .opcode = rq->opcode};
	}
	if (!p->hooks->posted)
		return 0;
	return p->hooks->posted(
	    p->hooks->argument,
	    &(struct sr_posted){.rank = rank,
				.at = rq->at,
				.site = p->ranks[rank].call.site,
				.request = rq->number,
				.opcode = rq->opcode,
				.qp_num = q->qp_num,
				.length = rq->length,
				.checksum = checksum,
				.to = to,
				.address = is_one_sided(rq->opcode) && to != SR_NO_RANK
					       ? address_of(&p->links->ranks[to].rkeys, rkey, rq->remote)
					       : rq->remote});
}

/* As send_wr of calls.def is laid out; the lists are walked without a copy. */
struct wire_send {
	uint64_t wr_id;
	uint32_t opcode, flags;
	uint64_t remote;
	uint32_t rkey;
	uint64_t checksum, length, first_sge;
	uint32_t first_key;
};

static void get_send(struct sr_cursor *c, struct wire_send *w)
{
	uint32_t n;

	w->wr_id = sr_get_u64(c);
	w->opcode = sr_get_u32(c);
	w->flags = sr_get_u32(c);
	sr_get_u32(c); /* imm_data */
	w->remote = sr_get_u64(c);
	w->rkey = sr_get_u32(c);
	sr_get_u64(c); /* compare_add */
	sr_get_u64(c); /* swap */
	sr_get_u64(c); /* ah */
	sr_get_u32(c); /* remote_qpn */
	sr_get_u32(c); /* remote_qkey */
	w->checksum = sr_get_u64(c);
	w->length = w->first_sge = 0;
	w->first_key = 0;
	n = sr_get_u32(c);
	for (uint32_t i = 0; i < n && !c->bad; i++) {
		uint64_t addr = sr_get_u64(c);
		uint32_t length = sr_get_u32(c), key = sr_get_u32(c);

		if (!w->length) { /* empty ones bring nothing */
			w->first_sge = addr;
			w->first_key = key;
		}
		w->length += length;
	}
}

/* How many of the chain were posted: all, or up to the one that was refused. */
static uint32_t accepted(const struct sr_log_call *c, uint32_t n)
{
	struct sr_cursor out = {.p = c->out, .end = c->out + c->out_size};
	uint32_t bad;

	if (!sr_get_u8(&out))
		return n;
	bad = sr_get_u32(&out);
	return bad < n ? bad : n;
}

static int post_send(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	struct sr_cursor in = {.p = c->in, .end = c->in + c->in_size};
	struct qp *q = qp_at_or_new(r, sr_get_u64(&in));
	uint32_t n = accepted(c, sr_get_u32(&in));
	int err = q ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && !err; i++) {
		struct wire_send w;

		get_send(&in, &w);
		if (in.bad)
			return -EBADMSG;
		err = posted(
		    p, rank, q,
		    &(struct request){
			.at = *sr_knowledge_now(p->knowledge, rank),
			.wr_id = w.wr_id,
			.length = w.length,
			.remote = w.remote,
			.first_sge = fetches((uint8_t)w.opcode)
					 ? address_of(&p->links->ranks[rank].lkeys, w.first_key,
						      w.first_sge)
					 : 0,
			.number = (uint16_t)i,
			.opcode = (uint8_t)w.opcode,
			.signaled = q->sig_all || w.flags & IBV_SEND_SIGNALED,
			.fetches = fetches((uint8_t)w.opcode)},
		    w.checksum, w.rkey);
	}
	return err;
}

/* ---- the builders: a batch is posted when it is complete ---- */

static int build(struct qp *q, const struct sr_log_call *c)
{
	struct sr_cursor in = {.p = c->in, .end = c->in + c->in_size};
	struct sr_cursor tail = {.p = c->in + c->in_size - 12, .end = c->in + c->in_size};
	struct built *b;

	if (c->in_size < 20)
		return -EBADMSG;
	if (q->batch_n == q->batch_room) {
		size_t room = q->batch_room ? 2 * q->batch_room : 16;
		struct built *more = realloc(q->batch, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		q->batch = more;
		q->batch_room = room;
	}
	b = &q->batch[q->batch_n];
	*b = (struct built){.rq = {.opcode = c->opcode,
				   .number = (uint16_t)q->batch_n++,
				   .fetches = fetches(c->opcode)}};
	sr_get_u64(&in); /* the queue pair */
	if (c->what == SR_WHAT_BUILD_REMOTE) {
		b->rkey = sr_get_u32(&in);
		b->rq.remote = sr_get_u64(&in);
		b->rq.length = c->opcode == IBV_WR_ATOMIC_WRITE ? 8 : 0;
	}
	/* The last arguments of every builder. */
	b->rq.wr_id = sr_get_u64(&tail);
	b->rq.signaled = q->sig_all || sr_get_u32(&tail) & IBV_SEND_SIGNALED;
	return in.bad || tail.bad ? -EBADMSG : 0;
}

static int set_data(struct process *p, size_t rank, struct qp *q, const struct sr_log_call *c)
{
	struct sr_cursor in = {.p = c->in, .end = c->in + c->in_size};
	const struct sr_keymap *lkeys = &p->links->ranks[rank].lkeys;
	struct built *b = &q->batch[q->batch_n - 1];
	uint32_t key, n;
	uint64_t addr;

	if (!q->batch_n)
		return 0;
	sr_get_u64(&in); /* the queue pair */
	switch (c->what) {
	case SR_WHAT_SET_SGE:
		key = sr_get_u32(&in);
		addr = sr_get_u64(&in);
		b->rq.first_sge = address_of(lkeys, key, addr);
		b->rq.length = sr_get_u32(&in);
		break;
	case SR_WHAT_SET_SGE_LIST:
		n = sr_get_u32(&in);
		for (uint32_t i = 0; i < n && !in.bad; i++) {
			uint32_t length;

			addr = sr_get_u64(&in);
			length = sr_get_u32(&in);
			key = sr_get_u32(&in);
			if (!b->rq.length)
				b->rq.first_sge = address_of(lkeys, key, addr);
			b->rq.length += length;
		}
		break;
	case SR_WHAT_SET_INLINE:
		b->rq.length = sr_get_u64(&in);
		b->checksum = sr_get_u64(&in);
		break;
	default: /* an inline list: only its checksum is in the trace */
		sr_get_u64(&in);
		b->checksum = sr_get_u64(&in);
		break;
	}
	return in.bad ? -EBADMSG : 0;
}

static int batch(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	struct sr_cursor in = {.p = c->in, .end = c->in + c->in_size};
	struct qp *q = qp_at_or_new(r, sr_get_u64(&in));
	int err = 0;

	if (!q)
		return -ENOMEM;
	switch (c->what) {
	case SR_WHAT_BUILD_PLAIN:
	case SR_WHAT_BUILD_REMOTE:
		return build(q, c);
	case SR_WHAT_SET_SGE:
	case SR_WHAT_SET_SGE_LIST:
	case SR_WHAT_SET_INLINE:
	case SR_WHAT_SET_INLINE_LIST:
		return set_data(p, rank, q, c);
	case SR_WHAT_BATCH_COMPLETE:
		for (size_t i = 0; !c->result && i < q->batch_n && !err; i++) {
			struct built *b = &q->batch[i];

			b->rq.at = *sr_knowledge_now(p->knowledge, rank);
			err = posted(p, rank, q, &b->rq, b->checksum, b->rkey);
		}
		break;
	default:
		break;
	}
	q->batch_n = 0;
	return err;
}

/* ------------------------------------------------------------- completions */

/* What a poll gave, one after the other. */
struct poll {
	struct sr_cursor completions, segments;
	size_t n, segments_n;
	bool extended;
};

struct completion {
	uint64_t wr_id;
	uint32_t status, opcode, byte_len, qp_num;
};

#define WC_BYTES	 46 /* ibv_wc of calls.def */
#define COMPLETION_BYTES 80 /* completion */

static bool get_poll(const struct sr_log_call *c, struct poll *v)
{
	struct sr_cursor out = {.p = c->out, .end = c->out + c->out_size};

	*v = (struct poll){.extended = c->what == SR_WHAT_POLL_EX};
	if (!sr_get_u8(&out))
		return false;
	v->n = v->extended ? 1 : sr_get_u32(&out);
	v->completions = out;
	if (out.bad || v->n > (size_t)(out.end - out.p))
		return false;
	if ((size_t)(out.end - out.p) < v->n * (v->extended ? COMPLETION_BYTES : WC_BYTES))
		return false;
	out.p += v->n * (v->extended ? COMPLETION_BYTES : WC_BYTES);
	if (sr_get_u8(&out))
		v->segments_n = sr_get_u32(&out);
	v->segments = out;
	return !out.bad;
}

static struct completion get_completion(struct sr_cursor *c, bool extended)
{
	struct completion v;
	const uint8_t *next = c->p + (extended ? COMPLETION_BYTES : WC_BYTES);

	v.wr_id = sr_get_u64(c);
	v.status = sr_get_u32(c);
	v.opcode = sr_get_u32(c);
	sr_get_u32(c); /* vendor_err */
	v.byte_len = sr_get_u32(c);
	sr_get_u32(c); /* imm_data */
	v.qp_num = sr_get_u32(c);
	c->p = next;
	return v;
}

/* The poll under way, and where it is. */
struct polling {
	struct process *p;
	size_t rank;
	struct poll poll;
	size_t at, segment;
};

/*
 * Tells the next segments, up to `length` bytes, as values of this completion;
 * `first`, if it is not 0, is where they must begin.  How many bytes there were.
 */
static int64_t tell_segments(struct polling *s, struct sr_value *v, uint64_t length, uint64_t first)
{
	struct process *p = s->p;
	uint64_t told = 0, remote = v->remote;

	while (told < length && s->segment < s->poll.segments_n) {
		struct sr_cursor next = s->poll.segments;
		uint64_t address = sr_get_u64(&next);
		struct sr_bytes data = sr_get_bytes(&next);
		int err;

		if (next.bad)
			return -EBADMSG;
		/* Memory that the CPU cannot read was not logged. */
		if (first && !told && address != first)
			break;
		s->poll.segments = next;
		s->segment++;
		v->address = address;
		v->data = data.p;
		v->length = data.n;
		v->remote = remote + told;
		told += data.n;
		p->counts->values++;
		p->counts->bytes += data.n;
		err = p->hooks->value ? p->hooks->value(p->hooks->argument, v) : 0;
		if (err)
			return err;
	}
	return (int64_t)told;
}

static struct sr_value new_value(const struct polling *s)
{
	const struct process *p = s->p;

	return (struct sr_value){.rank = s->rank,
				 .at = *sr_knowledge_now(p->knowledge, s->rank),
				 .site = p->ranks[s->rank].call.site,
				 .completion = (uint16_t)s->at,
				 .from = SR_NO_RANK,
				 .known = sr_knowledge_of(p->knowledge, s->rank)};
}

/* A fetch is known to have ended. */
static int ended(struct polling *s, const struct qp *q, struct request *rq)
{
	struct process *p = s->p;
	struct sr_value v = new_value(s);
	int64_t told;

	v.from = peer_of(p, q);
	v.remote = rq->remote;
	v.sent = rq->at;
	v.request = rq->number;
	v.flags = link_flags(p, q);
	told = tell_segments(s, &v, rq->length, rq->first_sge);
	if (told < 0 || rq->fetched)
		return told < 0 ? (int)told : 0;
	rq->fetched = true;
	if (!p->hooks->fetched)
		return 0;
	return p->hooks->fetched(p->hooks->argument, &(struct sr_fetched){.rank = s->rank,
									  .posted = rq->at,
									  .completed = v.at,
									  .request = rq->number,
									  .completion = v.completion,
									  .from = v.from,
									  .flags = v.flags});
}

/* The request that a completion is of: the first signaled one that says so. */
static struct request *request_of(const struct qp *q, const struct completion *c, size_t *at)
{
	for (*at = 0; *at < q->requests.used; ++*at) {
		struct request *rq = REQUEST_AT(q, *at);

		if (!rq->told && rq->signaled && rq->wr_id == c->wr_id)
			return rq;
	}
	return NULL;
}

/* Do the bytes that come next belong there? */
static bool arrived_at(const struct polling *s, uint64_t address)
{
	struct sr_cursor next = s->poll.segments;

	return s->segment < s->poll.segments_n && sr_get_u64(&next) == address;
}

/* No queue is so deep: one whose completion was lost with --lossy would be waited for for ever. */
static void pop_told(struct qp *q)
{
	while (q->requests.used &&
	       (REQUEST_AT(q, 0)->told || q->requests.used > MANY_REQUESTS))
		ring_pop(&q->requests);
}

/*
 * What comes in front of the first request that failed has not.  Which one that
 * is its wr_id may not tell, if several have it; the bytes that arrived do.
 */
static int failed(struct polling *s, struct qp *q, const struct completion *c)
{
	bool stale = q->requests.used && REQUEST_AT(q, 0)->stale;
	size_t at = SIZE_MAX;
	int err = 0;

	for (size_t i = 0; i < q->requests.used && !err; i++) {
		struct request *rq = REQUEST_AT(q, i);

		if (rq->stale != stale)
			break;
		if (rq->fetches && !rq->fetched && arrived_at(s, rq->first_sge))
			err = ended(s, q, rq);
		if (at == SIZE_MAX && !rq->told && rq->wr_id == c->wr_id)
			at = i;
	}
	for (size_t i = 0; at != SIZE_MAX && i <= at; i++)
		REQUEST_AT(q, i)->told = true;
	pop_told(q);
	q->broken |= !stale;
	return err;
}

/* All in front of it have ended as well; those that tell so themselves are left for that. */
static int sent(struct polling *s, struct qp *q, const struct completion *c)
{
	size_t at;
	struct request *rq = request_of(q, c, &at);
	int err = 0;

	if (c->status != IBV_WC_SUCCESS)
		return failed(s, q, c);
	if (!rq) {
		s->p->counts->unexpected += !q->broken;
		return 0;
	}
	for (size_t i = 0; i <= at && !err; i++) {
		struct request *before = REQUEST_AT(q, i);

		/* Its bytes were logged here, even if it has a completion to come; and there again. */
		if (before->fetches && (before == rq || !before->fetched) &&
		    before->stale == rq->stale)
			err = ended(s, q, before);
		before->told |= before == rq || !before->signaled || before->stale != rq->stale;
	}
	pop_told(q);
	return err;
}

/* 1: it has to wait for the send.  Nothing has been told then. */
static int received(struct polling *s, struct qp *q, const struct completion *c)
{
	struct process *p = s->p;
	struct rank *r = &p->ranks[s->rank];
	size_t from = peer_of(p, q);
	struct qp *sender = other_end(p, q);
	struct sr_value v;
	struct message *m = NULL;
	int64_t told;

	if (c->status != IBV_WC_SUCCESS)
		return 0;
	if (from != SR_NO_RANK && !q->deaf) {
		if (sender && sender->messages.used) {
			m = MESSAGE_AT(sender, 0);
		} else if (!p->ranks[from].over && from != s->rank) {
			r->blocked = BY_MESSAGE;
			r->blocked_on = from;
			r->blocked_qp = q;
			return 1;
		} else {
			p->counts->unmatched++;
		}
	}
	if (m) {
		p->counts->messages++;
		sr_knowledge_message(p->knowledge, s->rank, from, &m->at,
				     SR_PLAN_BY_MESSAGE | link_flags(p, q));
	}
	v = new_value(s);
	v.from = from;
	v.is_message = m;
	v.flags = link_flags(p, q);
	if (m) {
		v.sent = m->at;
		v.request = m->number;
		v.message_length = m->length;
		v.message_checksum = m->checksum;
		ring_pop(&sender->messages);
	}
	if (c->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return 0;
	told = tell_segments(s, &v, c->byte_len, 0);
	return told < 0 ? (int)told : 0;
}

/* What was logged with no completion to account for it. */
static int tell_rest(struct polling *s)
{
	struct sr_value v = new_value(s);
	int64_t told;

	if (s->segment == s->poll.segments_n)
		return 0;
	s->p->counts->unexpected++;
	told = tell_segments(s, &v, UINT64_MAX, 0);
	return told < 0 ? (int)told : 0;
}

/* 1: blocked, and to be gone on with from there. */
static int poll_cq(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	struct polling s = {.p = p, .rank = rank};
	int ret = 0;

	if (!get_poll(&r->call, &s.poll))
		return 0;
	for (; s.segment < r->segment; s.segment++) {
		sr_get_u64(&s.poll.segments);
		sr_get_bytes(&s.poll.segments);
	}
	for (; s.at < s.poll.n && !ret; s.at++) {
		struct completion c = get_completion(&s.poll.completions, s.poll.extended);
		struct qp *q;

		if (s.at < r->completion)
			continue;
		q = qp_numbered(r, c.qp_num);
		if (!q)
			continue;
		ret = c.opcode & IBV_WC_RECV ? received(&s, q, &c) : sent(&s, q, &c);
		if (ret == 1) {
			r->completion = s.at;
			r->segment = s.segment;
		}
	}
	if (!ret)
		ret = tell_rest(&s);
	return s.poll.completions.bad || s.poll.segments.bad ? -EBADMSG : ret;
}

/* ------------------------------------------------------------ one rank on */

/* The rank of an order that cannot be understood yet. */
static bool clocks_block(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];

	for (size_t i = 0; i < r->call.clocks_n; i++) {
		const struct sr_log_clock *c = &r->call.clocks[i];
		size_t other = c->found ? p->of_member[c->order.member] : SR_NO_RANK;

		if (other == SR_NO_RANK || other == rank || p->ranks[other].over ||
		    sr_knowledge_has(p->knowledge, other, c->order.event))
			continue;
		r->blocked = BY_EVENT;
		r->blocked_on = other;
		r->blocked_event = c->order.event;
		return true;
	}
	return false;
}

static void take_clocks(struct process *p, size_t rank, size_t from, size_t end)
{
	const struct sr_log_call *call = &p->ranks[rank].call;

	/* An event comes in front of its orders, and is what it is with them. */
	for (size_t i = from; i < end;) {
		uint64_t event = call->clocks[i++].event;

		for (; i < end && call->clocks[i].found; i++) {
			const struct sr_order *o = &call->clocks[i].order;
			size_t other = p->of_member[o->member];

			if (other != SR_NO_RANK && other != rank)
				sr_knowledge_order(p->knowledge, rank, other, o->event,
						   o->via == SR_ORDER_OWN ? SR_PLAN_BY_OWN
									  : SR_PLAN_BY_CELL);
		}
		sr_knowledge_event(p->knowledge, rank, event);
	}
}

static int tell_window(struct process *p, size_t rank, const struct sr_window_event *e)
{
	struct sr_value v = {.rank = rank,
			     .at = *sr_knowledge_now(p->knowledge, rank),
			     .site = e->fault ? e->pc : p->ranks[rank].call.site,
			     .is_window = true,
			     .from = SR_NO_RANK,
			     .known = sr_knowledge_of(p->knowledge, rank)};
	int err = 0;

	for (uint32_t i = 0; i < e->values_n && !err; i++) {
		v.address = e->values[i].addr;
		v.length = e->values[i].length;
		v.data = e->values[i].data;
		p->counts->values++;
		p->counts->bytes += v.length;
		err = p->hooks->value ? p->hooks->value(p->hooks->argument, &v) : 0;
	}
	return err;
}

/*
 * Faults behind the call before, and what an observation found at this one; each
 * with the clocks in front of it.  *clocks: so many were taken.
 */
static int take_windows(struct process *p, size_t rank, size_t *clocks)
{
	static struct sr_window_records w;
	const struct sr_log_call *c = &p->ranks[rank].call;
	int err = 0;

	for (size_t i = 0; i < c->windows_n && !err; i++) {
		const struct sr_log_window *window = &c->windows[i];

		if (!sr_window_records_decode(&w, c->windows_bytes + window->at, window->size))
			return -EBADMSG;
		sr_knowledge_enter(p->knowledge, rank, c->thread,
				   w.event.fault ? c->sn - 1 : c->sn, (uint32_t)w.event.fault);
		take_clocks(p, rank, *clocks, window->clocks);
		*clocks = window->clocks;
		err = sr_knowledge_settle(p->knowledge, rank);
		if (!err)
			err = tell_window(p, rank, &w.event);
	}
	return err;
}

/* The call has begun: what comes in front of it. */
static int enter(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	size_t clocks = 0;
	int err = take_windows(p, rank, &clocks);

	if (err)
		return err;
	sr_knowledge_enter(p->knowledge, rank, r->call.thread, r->call.sn, 0);
	take_clocks(p, rank, clocks, r->call.clocks_n);
	r->entered = true;
	r->completion = r->segment = 0;
	p->counts->calls++;
	return 0;
}

/* Is the receiver of what this call posts too far behind? */
static bool sends_too_many(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	uint64_t address;
	struct qp *q;
	size_t to;

	if ((c->what != SR_WHAT_POST_SEND && c->what != SR_WHAT_BATCH_COMPLETE) ||
	    c->in_size < sizeof(address))
		return false;
	memcpy(&address, c->in, sizeof(address));
	q = qp_at(r, address);
	if (!q || q->messages.used < MANY_MESSAGES)
		return false;
	to = peer_of(p, q);
	if (to == SR_NO_RANK || p->ranks[to].over || to == rank)
		return false;
	r->blocked = BY_MANY;
	r->blocked_on = to;
	r->blocked_qp = q;
	return true;
}

/* What the call itself says.  1: blocked. */
static int take_call(struct process *p, size_t rank)
{
	const struct sr_log_call *c = &p->ranks[rank].call;

	switch (c->what) {
	case SR_WHAT_NOTHING:
	case SR_WHAT_BIND_MW:
		return 0;
	case SR_WHAT_POST_SEND:
		return post_send(p, rank);
	case SR_WHAT_POLL:
	case SR_WHAT_POLL_EX:
		return poll_cq(p, rank);
	default:
		return c->what < SR_WHAT_DATA_PATH_END ? batch(p, rank) : control(p, rank, c);
	}
}

/* 0: the rank is done with its call; 1: blocked; -errno. */
static int step(struct process *p, size_t rank, bool many)
{
	struct rank *r = &p->ranks[rank];
	int ret;

	r->blocked = NOT_BLOCKED;
	if (!r->entered) {
		if (clocks_block(p, rank) || (!many && sends_too_many(p, rank)))
			return 1;
		ret = enter(p, rank);
		if (ret)
			return ret;
	}
	ret = take_call(p, rank);
	if (ret)
		return ret;
	r->has_call = false;
	return sr_knowledge_settle(p->knowledge, rank);
}

static int fetch_call(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	int got;

	if (r->has_call)
		return 1;
	got = sr_log_rank_next(r->log, &r->call, p->err);
	r->has_call = got > 0;
	r->entered = false;
	r->over = got == 0;
	return got;
}

/* Up to a quantum of calls of one rank; how many, or -errno. */
static int go_on(struct process *p, size_t rank, bool many)
{
	int done, ret = 0;

	for (done = 0; done < QUANTUM; done++) {
		/* The reader has said what is wrong. */
		ret = fetch_call(p, rank);
		if (ret <= 0)
			return ret < 0 ? ret : done + 1;
		ret = step(p, rank, many);
		if (ret < 0)
			return sr_error_set(
			    p->err, ret, "rank %d thread %u SN %llu: %s",
			    p->links->ranks[rank].number, p->ranks[rank].call.thread,
			    (unsigned long long)p->ranks[rank].call.sn,
			    ret == -ENOMEM    ? "no memory left"
			    : ret == -EBADMSG ? "a damaged record"
					      : strerror(-ret));
		if (ret)
			return done;
		many = false;
	}
	return done;
}

/* --------------------------------------------------------------- all ranks */

static bool is_blocked(const struct process *p, size_t rank)
{
	const struct rank *r = &p->ranks[rank];
	const struct qp *sender;

	switch (r->blocked) {
	case BY_EVENT:
		return !p->ranks[r->blocked_on].over &&
		       !sr_knowledge_has(p->knowledge, r->blocked_on, r->blocked_event);
	case BY_MESSAGE:
		sender = other_end(p, r->blocked_qp);
		return !p->ranks[r->blocked_on].over && !r->blocked_qp->deaf &&
		       !(sender && sender->messages.used);
	case BY_MANY:
		return !p->ranks[r->blocked_on].over &&
		       r->blocked_qp->messages.used >= MANY_MESSAGES / 2;
	default:
		return false;
	}
}

/* The one that is the least far along its streams: the ranks ran at the same time. */
static size_t next_rank(const struct process *p, bool many)
{
	size_t best = SR_NO_RANK;
	double least = 0, far;

	for (size_t i = 0; i < p->n; i++) {
		const struct rank *r = &p->ranks[i];

		if (r->over || (is_blocked(p, i) && !(many && r->blocked == BY_MANY)))
			continue;
		far = (double)sr_log_rank_done(r->log) / (double)(sr_log_rank_size(r->log) + 1);
		if (best != SR_NO_RANK && far >= least)
			continue;
		best = i;
		least = far;
	}
	return best;
}

/* Nobody can go on.  A receive may lack its send; orders of clocks are told by one run. */
static int unblock(struct process *p)
{
	const struct rank *r;
	size_t i;

	for (i = 0; i < p->n; i++) {
		struct qp *q = p->ranks[i].blocked_qp;

		if (p->ranks[i].over || p->ranks[i].blocked != BY_MESSAGE)
			continue;
		q->deaf = true;
		if (other_end(p, q))
			other_end(p, q)->messages.used = 0;
		p->counts->unmatched++;
		return 0;
	}
	for (i = 0; i < p->n && p->ranks[i].over; i++)
		;
	r = &p->ranks[i];
	return sr_error_set(
	    p->err, -ELOOP,
	    "the orders in the trace contradict each other: SN %llu of rank %d (thread %u) comes "
	    "after event %llu of rank %d, which waits for others in turn; these ranks were not "
	    "recorded in one run, or the trace is damaged",
	    (unsigned long long)r->call.sn, p->links->ranks[i].number, r->call.thread,
	    (unsigned long long)r->blocked_event, p->links->ranks[r->blocked_on].number);
}

static bool all_over(const struct process *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->ranks[i].over)
			return false;
	return true;
}

static void tell_progress(const struct process *p)
{
	uint64_t done = 0;

	for (size_t i = 0; p->hooks->progress && i < p->n; i++)
		done += sr_log_rank_done(p->ranks[i].log);
	if (p->hooks->progress)
		p->hooks->progress(p->hooks->argument, done, p->size);
}

static int run(struct process *p)
{
	int ret = 0;

	while (ret >= 0 && !all_over(p)) {
		size_t rank = next_rank(p, false);
		bool many = rank == SR_NO_RANK;

		if (many)
			rank = next_rank(p, true);
		ret = rank == SR_NO_RANK ? unblock(p) : go_on(p, rank, many);
		tell_progress(p);
	}
	return ret < 0 ? ret : 0;
}

static int open_ranks(struct process *p, struct sr_trace *t)
{
	int ret = 0;

	for (size_t i = 0; i < SR_CLOCK_MEMBERS; i++)
		p->of_member[i] = SR_NO_RANK;
	for (size_t i = 0; i < p->n && !ret; i++) {
		if (p->links->ranks[i].member >= 0)
			p->of_member[p->links->ranks[i].member] = i;
		ret = sr_log_rank_open(&p->ranks[i].log, t, p->links->ranks[i].number, false,
				       p->err);
		if (!ret)
			p->size += sr_log_rank_size(p->ranks[i].log);
	}
	return ret;
}

static void close_ranks(struct process *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct rank *r = &p->ranks[i];

		if (r->log) {
			p->counts->records += sr_log_rank_records(r->log);
			p->counts->holes += sr_log_rank_holes(r->log);
		}
		sr_log_rank_close(r->log);
		for (size_t k = 0; k < r->qps_n; k++)
			free_qp(r->qps[k]);
		free(r->qps);
		sr_keymap_free(&r->by_address);
		sr_keymap_free(&r->by_number);
	}
}

/* Counted on its way to whom it is for. */
struct counted {
	const struct sr_process_hooks *hooks;
	struct sr_process_counts *counts;
};

static int count_order(void *argument, const struct sr_found_order *o)
{
	const struct counted *c = argument;

	c->counts->orders++;
	return c->hooks->order ? c->hooks->order(c->hooks->argument, o) : 0;
}

int sr_process(struct sr_trace *t, const struct sr_links *links, const bool *group,
	       const struct sr_process_hooks *hooks, struct sr_process_counts *counts,
	       struct sr_error *err)
{
	struct process p = {
	    .links = links, .hooks = hooks, .counts = counts, .err = err, .n = links->ranks_n};
	struct counted counted = {hooks, counts};
	int ret;

	*counts = (struct sr_process_counts){0};
	p.ranks = calloc(p.n + 1, sizeof(*p.ranks));
	p.qp_of_end = calloc(links->ends_n + 1, sizeof(struct qp *));
	p.knowledge = sr_knowledge_new(p.n, group, count_order, &counted);
	if (!p.ranks || !p.qp_of_end || !p.knowledge)
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	else
		ret = open_ranks(&p, t);
	if (!ret)
		ret = run(&p);
	if (p.knowledge)
		counts->weakened = sr_knowledge_weakened(p.knowledge);
	for (size_t i = 0; i < links->ends_n; i++)
		counts->ambiguous_links += links->ends[i].ambiguous;
	if (p.ranks)
		close_ranks(&p);
	sr_knowledge_free(p.knowledge);
	free(p.qp_of_end);
	free(p.ranks);
	return ret;
}
