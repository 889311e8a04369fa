/* SPDX-License-Identifier: BSD-2-Clause */
/* polls.c: completions, and the values that they brought; see process_own.h. */
#include "logd/base/datagram.h"
#include "logd/trace/left_out.h"
#include "replay/analysis/process/own.h"

#include <errno.h>
#include <string.h>

#include "replay/analysis/log/decode.h"
#include "replay/analysis/log/wire.h"

struct completion {
	uint64_t wr_id;
	uint32_t status, opcode, byte_len, qp_num, src_qp;
	bool lacks_queue;
};

static struct completion get_completion(struct sr_cursor *c, bool extended)
{
	struct sr_completion x;
	struct ibv_wc wc;

	if (extended) {
		sr_get_completion(c, &x);
		return (struct completion){x.wr_id, x.status, x.opcode, x.byte_len, x.qp_num, x.src_qp};
	}
	sr_get_ibv_wc(c, &wc);
	return (struct completion){wc.wr_id, wc.status, wc.opcode, wc.byte_len, wc.qp_num, wc.src_qp, wc.qp_num == SR_PICK_LEFT_OUT};
}

/*
 * How many segments completions prove: a segment without bytes stands before those of requests that
 * ended without success.
 */
static size_t proven(const struct sr_log_polled *v)
{
	struct sr_cursor c = v->segments;
	struct sr_wire_segment found;

	for (size_t i = 0; i < v->segments_n; i++) {
		sr_get_segment_fields(&c, &found);
		if (c.bad || !found.addr)
			return i;
	}
	return v->segments_n;
}

static bool get_poll(const struct sr_log_call *c, struct sr_log_polled *v)
{
	if (!sr_log_get_polled(c, v))
		return false;
	v->segments_n = proven(v);
	return true;
}

/* A segment's bytes; without data where the trace leaves them out (left_out.h). */
struct arrived {
	uint64_t address;
	uint32_t length;
	const uint8_t *data;
};

static struct arrived arrived_of(const struct sr_wire_segment *s)
{
	struct sr_left_out l;

	if (!(s->addr & SR_LEFT_OUT) || !sr_left_out_get(&l, s->data.p, s->data.n))
		return (struct arrived){s->addr, s->data.n, s->data.p};
	return (struct arrived){s->addr & ~SR_LEFT_OUT, l.length, NULL};
}

struct polling {
	struct process *p;
	size_t rank;
	struct sr_log_polled poll;
	size_t at, segment;
};

/*
 * Reports the next segments, up to `length` bytes and up to that end, as values of this completion; returns how many
 * bytes there were.  first: where they must begin; 0: anywhere.
 */
static int64_t report_segments(struct polling *s, struct sr_value *v, uint64_t length,
			       uint64_t first, size_t end)
{
	struct process *p = s->p;
	uint64_t reported = 0, remote = v->remote;

	while (reported < length && s->segment < s->poll.segments_n && s->segment < end) {
		struct sr_cursor next = s->poll.segments;
		struct sr_wire_segment segment;
		struct arrived found;
		int err;

		sr_get_segment_fields(&next, &segment);
		if (next.bad)
			return -EBADMSG;
		found = arrived_of(&segment);
		/* Memory that the CPU cannot read was not recorded. */
		if (first && !reported && found.address != first)
			break;
		s->poll.segments = next;
		s->segment++;
		v->address = found.address;
		v->data = found.data;
		v->length = found.length;
		v->remote = remote + reported;
		reported += found.length;
		p->counts->values++;
		p->counts->bytes += found.length;
		err = p->hooks->value ? p->hooks->value(p->hooks->argument, v) : 0;
		if (err)
			return err;
	}
	return (int64_t)reported;
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

static int ended(struct polling *s, const struct qp *q, struct request *rq, uint64_t length, size_t end)
{
	struct process *p = s->p;
	struct sr_value v = new_value(s);
	int64_t reported;

	v.from = sr_log_peer_of(p, q);
	v.remote = rq->remote;
	v.sent = rq->at;
	v.posted = rq->posted;
	v.request = rq->number;
	v.flags = sr_log_link_flags(p, q);
	reported = report_segments(s, &v, length, rq->first_sge, end);
	if (reported < 0 || rq->fetched)
		return reported < 0 ? (int)reported : 0;
	rq->fetched = true;
	if (!p->hooks->fetched)
		return 0;
	return p->hooks->fetched(p->hooks->argument,
				 &(struct sr_fetched){.rank = s->rank,
						      .posted = rq->at,
						      .completed = v.at,
						      .request = rq->number,
						      .completion = v.completion,
						      .from = v.from,
						      .flags = v.flags});
}

static bool arrived_at(const struct polling *s, uint64_t address)
{
	struct sr_cursor next = s->poll.segments;
	struct sr_wire_segment found;

	if (s->segment >= s->poll.segments_n)
		return false;
	sr_get_segment_fields(&next, &found);
	return found.addr == address;
}

struct completing {
	struct polling *s;
	struct qp *q;
	const struct sr_send_request *done;
	uint32_t byte_len; /* ... which its completion says */
	int err;
};

/*
 * The bytes of a fetch were logged with the completion that ended it, and once more with its
 * own if that came later.
 */
static void end_fetch(void *argument, struct sr_send_request *r, bool succeeded)
{
	struct completing *c = argument;
	struct request *rq = (struct request *)r;
	/* A post of record --order lacks the lengths of its pieces. */
	const bool lacks_lengths = !rq->length && c->s->p->ranks[c->s->rank].lacks_sent;

	if (!succeeded || !rq->fetches || (r != c->done && rq->fetched) || c->err)
		return;
	if (lacks_lengths && r != c->done)
		c->err = ended(c->s, c->q, rq, UINT64_MAX, c->s->segment + rq->pieces);
	else
		c->err = ended(c->s, c->q, rq, lacks_lengths ? c->byte_len : rq->length, SIZE_MAX);
}

static void end_nothing(void *argument, struct sr_send_request *r, bool succeeded)
{
}

static void drop(void *argument, struct sr_send_request *r)
{
	struct completing *c = argument;
	const struct sr_process_hooks *hooks = c->s->p->hooks;
	const struct request *rq = (const struct request *)r;

	if (hooks->completed && !c->err)
		c->err = hooks->completed(
		    hooks->argument,
		    &(struct sr_completed){.rank = c->s->rank,
					   .number = rq->posted,
					   .posted = rq->at,
					   .completed =
					       *sr_knowledge_now(c->s->p->knowledge, c->s->rank),
					   .length = rq->length,
					   .request = rq->number,
					   .completion = (uint16_t)c->s->at,
					   .opcode = rq->opcode,
					   .known = sr_knowledge_of(c->s->p->knowledge, c->s->rank)});
	sr_log_drop_request(c->q, r);
}

/*
 * Several requests may have the wr_id of the one that failed, so it cannot tell which
 * requests in front of it succeeded.  The bytes that arrived can.
 */
static int failed(struct polling *s, struct qp *q, const struct completion *c)
{
	static const struct sr_send_events events = {.ended = end_nothing, .left = drop};
	struct sr_send_request *first = sr_send_queue_next(&q->sends, NULL), *r = first, *done;
	bool is_stale = first && sr_send_queue_is_stale(&q->sends, first);
	struct completing completing = {.s = s, .q = q};

	for (; r && r->generation == first->generation && !completing.err;
	     r = sr_send_queue_next(&q->sends, r)) {
		struct request *rq = (struct request *)r;

		if (rq->fetches && !rq->fetched && arrived_at(s, rq->first_sge))
			completing.err = ended(s, q, rq, rq->length, SIZE_MAX);
	}
	done = sr_send_queue_find(&q->sends, c->wr_id, c->status, c->opcode);
	if (done)
		sr_send_queue_complete(&q->sends, done, c->status, &events, &completing);
	q->broken |= !is_stale;
	return completing.err;
}

static int sent(struct polling *s, struct qp *q, const struct completion *c)
{
	static const struct sr_send_events events = {.ended = end_fetch, .left = drop};
	struct completing completing = {.s = s, .q = q};
	struct sr_send_request *done;

	if (c->status != IBV_WC_SUCCESS)
		return failed(s, q, c);
	done = sr_send_queue_find(&q->sends, c->wr_id, c->status, c->opcode);
	completing.done = done;
	completing.byte_len = c->byte_len;
	if (done)
		sr_send_queue_complete(&q->sends, done, c->status, &events, &completing);
	else
		s->p->counts->unexpected += !q->broken;
	return completing.err;
}

/* Whose message a receive brought. */
struct sender {
	size_t rank;    /* SR_NO_RANK: not known */
	bool is_known;  /* the message, too: */
	struct message message;
	uint32_t flags; /* enum sr_plan_flags */
};

/* Does the trace lack bytes of what came, as its sender is to produce them in the replay? */
static bool lacks_bytes(const struct polling *s)
{
	struct sr_cursor next = s->poll.segments;
	struct sr_wire_segment found;

	if (s->segment == s->poll.segments_n)
		return false;
	sr_get_segment_fields(&next, &found);
	return found.addr & SR_LEFT_OUT;
}

/*
 * The rank whose trace ends before it has the message that came, in a job whose ranks are replayed together; SR_NO_RANK: there is
 * none.  A trace that ends before its queue pairs were connected does not say that it is the sender.
 */
static size_t cut_before(const struct polling *s, size_t from)
{
	const struct process *p = s->p;

	if (!p->ranks[s->rank].lacks_sent)
		return SR_NO_RANK;
	if (from != SR_NO_RANK)
		return p->ranks[from].ended_for;
	for (size_t i = 0; i < p->n && lacks_bytes(s); i++)
		if (p->links->ranks[i].is_cut)
			return i;
	return SR_NO_RANK;
}

/* 1: the sender's rank has not come to the send yet, or its trace ends before; or -errno. */
static int find_sender(struct polling *s, struct qp *q, struct sender *sender)
{
	struct process *p = s->p;
	struct rank *r = &p->ranks[s->rank];
	struct qp *other = sr_log_other_end(p, q);
	size_t from = sr_log_peer_of(p, q), cut;

	*sender = (struct sender){.rank = from, .flags = sr_log_link_flags(p, q)};
	if (q->deaf)
		return 0;
	if (other && other->messages.used) {
		sender->is_known = true;
		sender->message = *MESSAGE_AT(other, 0);
		sr_log_pop(&other->messages);
		return 0;
	}
	cut = cut_before(s, from);
	if (cut != SR_NO_RANK)
		return sr_log_end_early(p, s->rank, cut);
	if (from == SR_NO_RANK)
		return 0;
	if (p->ranks[from].over || from == s->rank) {
		p->counts->unmatched++;
		return 0;
	}
	r->blocked = BY_MESSAGE;
	r->blocked_on = from;
	r->blocked_qp = q;
	return 1;
}

/* The bytes of the completion at hand, as far as the segments that follow are its own; NULL: the trace lacks some. */
static const uint8_t *peek(const struct polling *s, uint32_t length)
{
	static uint8_t bytes[16384];
	struct sr_cursor next = s->poll.segments;
	uint32_t got = 0;

	if (length > sizeof(bytes))
		return NULL;
	for (size_t i = s->segment; got < length && i < s->poll.segments_n; i++) {
		struct sr_wire_segment segment;
		struct arrived a;

		sr_get_segment_fields(&next, &segment);
		if (next.bad)
			return NULL;
		a = arrived_of(&segment);
		if (!a.data || a.length > length - got)
			return NULL;
		memcpy(bytes + got, a.data, a.length);
		got += a.length;
	}
	return got == length ? bytes : NULL;
}

static int find_sender_of_datagram(struct polling *s, struct qp *q, const struct completion *c, struct sender *sender)
{
	struct rank *r = &s->p->ranks[s->rank];
	const uint8_t *bytes = peek(s, c->byte_len);
	struct arriving a = {.from_qp = c->src_qp, .to_qp = q->qp_num};
	bool in_vain = r->in_vain;
	struct datagram d;

	*sender = (struct sender){.rank = SR_NO_RANK};
	r->in_vain = false;
	if (c->byte_len < SR_DATAGRAM_HEADER || in_vain)
		return 0;
	a.length = c->byte_len - SR_DATAGRAM_HEADER;
	a.bytes = bytes ? bytes + SR_DATAGRAM_HEADER : NULL;
	sender->is_known = sr_log_datagram_received(s->p, &a, &d);
	if (!sender->is_known && q->by_length) {
		a.by_length = true;
		sender->is_known = sr_log_datagram_received(s->p, &a, &d);
	}
	if (sender->is_known) {
		sender->rank = d.rank;
		sender->message = d.message;
		return 0;
	}
	r->blocked_qp = q;
	return sr_log_datagram_await(s->p, s->rank, &a);
}

/* The value comes with this message. */
static int take_message(struct polling *s, const struct message *m, struct sr_value *v)
{
	struct process *p = s->p;

	p->counts->messages++;
	v->is_message = true;
	v->sent = m->at;
	v->posted = m->posted;
	v->request = m->number;
	v->message_length = m->length;
	v->message_checksum = m->checksum;
	if (!p->hooks->message)
		return 0;
	return p->hooks->message(p->hooks->argument,
				 &(struct sr_message){.rank = s->rank,
						      .number = v->posted,
						      .from = v->from,
						      .received = v->at,
						      .sent = v->sent,
						      .length = v->message_length,
						      .request = v->request,
						      .completion = v->completion,
						      .flags = v->flags});
}

static int report_received(struct polling *s, const struct qp *q, const struct completion *c,
			   const struct sr_value *v)
{
	const struct sr_process_hooks *hooks = s->p->hooks;

	if (!hooks->received)
		return 0;
	return hooks->received(
	    hooks->argument,
	    &(struct sr_received){.rank = s->rank,
				  .from = v->from,
				  .at = v->at,
				  .number = v->posted,
				  .queue = q->address,
				  .wr_id = c->wr_id,
				  .is_next = c->lacks_queue,
				  .length = c->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? 0 : c->byte_len});
}

/* 1: it has to wait for the send; nothing was reported then. */
static int received(struct polling *s, struct qp *q, const struct completion *c)
{
	struct sender sender;
	struct sr_value v;
	int64_t reported;
	int err;

	if (c->status != IBV_WC_SUCCESS)
		return 0;
	err = q->type == IBV_QPT_UD ? find_sender_of_datagram(s, q, c, &sender) : find_sender(s, q, &sender);
	if (err)
		return err;
	if (sender.is_known)
		sr_knowledge_message(s->p->knowledge, s->rank, sender.rank, &sender.message.at, SR_PLAN_BY_MESSAGE | sender.flags);
	v = new_value(s);
	v.from = sender.rank;
	v.flags = sender.flags;
	if (sender.is_known && (err = take_message(s, &sender.message, &v)))
		return err;
	err = report_received(s, q, c, &v);
	if (err)
		return err;
	if (c->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		return 0;
	reported = report_segments(s, &v, c->byte_len, 0, SIZE_MAX);
	return reported < 0 ? (int)reported : 0;
}

static int report_rest(struct polling *s)
{
	struct sr_value v = new_value(s);
	int64_t reported;

	if (s->segment == s->poll.segments_n)
		return 0;
	s->p->counts->unexpected++;
	reported = report_segments(s, &v, UINT64_MAX, 0, SIZE_MAX);
	return reported < 0 ? (int)reported : 0;
}

static uint64_t cq_of(const struct sr_log_call *c)
{
	uint64_t cq = 0;

	if (c->in_size >= sizeof(cq))
		memcpy(&cq, c->in, sizeof(cq));
	return cq;
}

/* Whose it is, where it does not say so.  1: that has not come yet. */
static int find_queue(struct polling *s, struct completion *c)
{
	struct rank *r = &s->p->ranks[s->rank];
	const bool receives = c->opcode & IBV_WC_RECV;
	struct qp *q = sr_log_find_pick(s->p, s->rank, cq_of(&r->call), receives);

	if (!q) {
		r->blocked = BY_PICK;
		r->blocked_event = cq_of(&r->call);
		r->blocked_receive = receives;
		return 1;
	}
	c->qp_num = q->qp_num;
	if (!receives)
		c->wr_id = sr_log_next_wr_id(q);
	return 0;
}

/* All of one poll are of the same queue. */
static int report_picked(const struct polling *s, const struct completion *c)
{
	const struct sr_process_hooks *hooks = s->p->hooks;

	if (!hooks->picked || !c->lacks_queue || s->at)
		return 0;
	return hooks->picked(hooks->argument, &(struct sr_picked){.rank = s->rank,
								  .at = *sr_knowledge_now(s->p->knowledge, s->rank),
								  .qp_num = c->qp_num,
								  .receives = c->opcode & IBV_WC_RECV});
}

static int take_completion(struct polling *s, struct completion *c)
{
	struct rank *r = &s->p->ranks[s->rank];
	int ret = c->lacks_queue ? find_queue(s, c) : 0;
	struct qp *q;

	if (ret)
		return ret;
	q = sr_log_qp_numbered(r, c->qp_num);
	if (q)
		ret = c->opcode & IBV_WC_RECV ? received(s, q, c) : sent(s, q, c);
	if (ret)
		return ret;
	if (!s->poll.extended && !sr_log_take_pick(r, cq_of(&r->call), c->qp_num, c->opcode & IBV_WC_RECV, !c->lacks_queue))
		return -EBADMSG;
	return report_picked(s, c);
}

/* 1: blocked; a later call continues there. */
int sr_log_poll_cq(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	struct polling s = {.p = p, .rank = rank};
	int ret = 0;

	if (!get_poll(&r->call, &s.poll))
		return 0;
	for (; s.segment < r->segment; s.segment++) {
		struct sr_wire_segment reported;

		sr_get_segment_fields(&s.poll.segments, &reported);
	}
	for (; s.at < s.poll.n && !ret; s.at++) {
		struct completion c = get_completion(&s.poll.completions, s.poll.extended);

		if (s.at < r->completion)
			continue;
		ret = take_completion(&s, &c);
		if (ret == 1) {
			r->completion = s.at;
			r->segment = s.segment;
		}
	}
	if (!ret)
		ret = report_rest(&s);
	return s.poll.completions.bad || s.poll.segments.bad ? -EBADMSG : ret;
}
