/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/process/own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/wire.h"

/* It is in flight until its receiver has got it. */
static int put_in_flight(struct process *p, size_t rank, struct qp *q, const struct request *rq, const struct details *d, uint64_t checksum)
{
	const struct qp *other = sr_log_other_end(p, q);
	const struct message m = {.at = rq->at,
				  .posted = rq->posted,
				  .length = rq->length,
				  .checksum = checksum,
				  .number = rq->number,
				  .opcode = rq->opcode};
	struct message *to;

	if (q->type == IBV_QPT_UD)
		return sr_log_datagram_sent(p, q, d, &(struct datagram){.rank = rank, .message = m});
	if (sr_log_peer_of(p, q) == SR_NO_RANK || (other && other->deaf))
		return 0;
	to = sr_log_push(&q->messages, sizeof(*to));
	if (!to)
		return -ENOMEM;
	*to = m;
	return 0;
}

static int posted(struct process *p, size_t rank, struct qp *q, struct request *rq,
		  const struct details *d, uint64_t checksum, uint32_t rkey)
{
	size_t to = sr_log_peer_of(p, q);
	const struct qp *other = sr_log_other_end(p, q);
	uint64_t is;

	rq->posted = ++p->posted;
	if (sr_log_add_request(q, rq) || (sr_op(rq->opcode) & SR_OP_RECEIVED && put_in_flight(p, rank, q, rq, d, checksum)))
		return -ENOMEM;
	if (!p->hooks->posted)
		return 0;
	return p->hooks->posted(
	    p->hooks->argument,
	    &(struct sr_posted){
		.number = rq->posted,
		.rank = rank,
		.at = rq->at,
		.queue = q->address,
		.to_end = sr_log_peer_end(p, q),
		.type = q->type,
		.flags = d->flags,
		.operand = d->operand,
		.expected = d->expected,
		.pieces = d->pieces,
		.pieces_n = d->pieces_n,
		.site = p->ranks[rank].call.site,
		.request = rq->number,
		.opcode = rq->opcode,
		.qp_num = q->qp_num,
		.length = rq->length,
		.checksum = checksum,
		.to = to,
		.key = rkey,
		.is_relaxed = to != SR_NO_RANK && sr_keymap_get(&p->links->ranks[to].relaxed, rkey, &is),
		.is_in_order = q->is_in_order || (other && other->is_in_order),
		.address = sr_op(rq->opcode) & SR_OP_REMOTE && to != SR_NO_RANK
			       ? sr_log_address_of(&p->links->ranks[to].rkeys, rkey, rq->remote)
			       : rq->remote});
}

/* A list of pieces: its length, and its first piece that is not empty. */
struct pieces {
	uint64_t length, first;
	uint32_t first_key;
};

static int keep_piece(struct details *d, const struct sr_keymap *lkeys, const struct ibv_sge *sge)
{
	struct sr_posted_piece *at =
	    sr_grow((void **)&d->pieces, d->pieces_n, &d->pieces_room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = (struct sr_posted_piece){sr_log_address_of(lkeys, sge->lkey, sge->addr), sge->length, sge->lkey};
	d->pieces_n++;
	return 0;
}

static int get_pieces(struct sr_cursor *c, uint64_t n, const struct sr_keymap *lkeys,
		      struct pieces *v, struct details *d)
{
	int err = 0;

	*v = (struct pieces){0};
	d->pieces_n = 0;
	for (uint64_t i = 0; i < n && !c->bad && !err; i++) {
		struct ibv_sge sge;

		sr_get_ibv_sge(c, &sge);
		if (!v->length) {
			v->first = sge.addr;
			v->first_key = sge.lkey;
		}
		v->length += sge.length;
		err = keep_piece(d, lkeys, &sge);
	}
	return err ? err : c->bad ? -EBADMSG : 0;
}

/* How many of the chain were posted: all, or those before the refused one. */
static uint32_t accepted(const struct sr_log_call *c, uint32_t n)
{
	struct sr_cursor at = {.p = c->out, .end = c->out + c->out_size};
	struct sr_out_post_send out;

	sr_get_out_post_send(&at, &out);
	return out.has_bad_wr && out.bad_wr < n ? out.bad_wr : n;
}

static int post_one(struct process *p, size_t rank, struct qp *q, struct sr_cursor *at,
		    uint16_t number)
{
	const struct sr_keymap *lkeys = &p->links->ranks[rank].lkeys;
	struct sr_wire_send_wr w;
	struct pieces pieces;
	struct request rq;
	int err;

	sr_get_send_wr_fields(at, &w);
	err = get_pieces(at, w.sg_list_n, lkeys, &pieces, &p->details);
	if (err)
		return err;
	p->details.flags = w.send_flags;
	p->details.operand = w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? w.swap : w.compare_add;
	p->details.expected = w.compare_add;
	p->details.remote_qpn = w.remote_qpn;
	rq = (struct request){
	    .at = *sr_knowledge_now(p->knowledge, rank),
	    .send = {.wr_id = w.wr_id,
		     .signaled = q->sig_all || w.send_flags & IBV_SEND_SIGNALED},
	    .length = pieces.length,
	    .pieces = (uint16_t)p->details.pieces_n,
	    .remote = w.remote_addr,
	    .number = number,
	    .opcode = (uint8_t)w.opcode,
	    .fetches = sr_op(w.opcode) & SR_OP_SCATTERS,
	};
	if (rq.fetches)
		rq.first_sge = sr_log_address_of(lkeys, pieces.first_key, pieces.first);
	return posted(p, rank, q, &rq, &p->details, w.checksum, w.rkey);
}

int sr_log_post_send(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	struct sr_cursor at = {.p = c->in, .end = c->in + c->in_size};
	struct sr_in_post_send in;
	struct qp *q;
	uint32_t n;
	int err;

	sr_get_in_post_send(&at, &in);
	q = sr_log_qp_at_or_new(r, in.qp);
	n = accepted(c, in.wr_n);
	err = q ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < n && !err; i++)
		err = post_one(p, rank, q, &at, (uint16_t)i);
	return err;
}

/* A request without data: its post is of interest only because it completes. */
int sr_log_bind_mw(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	struct sr_cursor at = {.p = c->in, .end = c->in + c->in_size};
	struct sr_in_bind_mw in;
	struct request rq = {.opcode = IBV_WR_BIND_MW};
	struct qp *q;

	sr_get_in_bind_mw(&at, &in);
	if (at.bad)
		return -EBADMSG;
	if (c->result || !in.has_bind)
		return 0;
	q = sr_log_qp_at_or_new(r, in.qp);
	if (!q)
		return -ENOMEM;
	rq.at = *sr_knowledge_now(p->knowledge, rank);
	rq.send.wr_id = in.bind.wr_id;
	rq.send.signaled = q->sig_all || in.bind.send_flags & IBV_SEND_SIGNALED;
	return sr_log_add_request(q, &rq);
}

static void get_operands(const struct sr_log_call *c, struct details *d)
{
	struct sr_cursor at = {.p = c->in, .end = c->in + c->in_size};
	struct sr_in_wr_rdma_write begins;

	/* Behind (qp, rkey, remote_addr), which all that name remote memory begin with. */
	at.p += SR_BYTES_in_wr_rdma_write - sizeof(begins.wr_id) - sizeof(begins.wr_flags);
	d->operand = sr_get_u64(&at);
	d->expected = d->operand;
	if (c->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		d->operand = sr_get_u64(&at);
}

static int build(struct qp *q, const struct sr_log_call *c)
{
	const uint8_t *end = c->in + c->in_size;
	struct sr_cursor first = {.p = c->in, .end = end};
	struct sr_cursor last = {.p = end - SR_BYTES_in_wr_send, .end = end};
	struct sr_in_wr_rdma_write begins;
	struct sr_in_wr_send ends;
	struct built *b;

	if (c->in_size < SR_BYTES_in_wr_send)
		return -EBADMSG;
	if (q->batch_n == q->batch_room) {
		size_t room = q->batch_room ? 2 * q->batch_room : 16;
		struct built *more = realloc(q->batch, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + q->batch_room, 0, (room - q->batch_room) * sizeof(*more));
		q->batch = more;
		q->batch_room = room;
	}
	b = &q->batch[q->batch_n];
	b->details.pieces_n = 0;
	*b = (struct built){.details = {.pieces = b->details.pieces, .pieces_room = b->details.pieces_room},
			    .rq = {.opcode = c->opcode,
				   .number = (uint16_t)q->batch_n++,
				   .fetches = sr_op(c->opcode) & SR_OP_SCATTERS}};
	if (c->what == SR_WHAT_BUILD_REMOTE) {
		/* All that name remote memory begin as a WRITE does. */
		sr_get_in_wr_rdma_write(&first, &begins);
		b->rkey = begins.rkey;
		b->rq.remote = begins.remote_addr;
		b->rq.length = c->opcode == SR_WR_ATOMIC_WRITE ? 8 : 0;
	}
	/* All end as a SEND does, with wr_id and wr_flags. */
	sr_get_in_wr_send(&last, &ends);
	b->rq.send.wr_id = ends.wr_id;
	b->rq.send.signaled = q->sig_all || ends.wr_flags & IBV_SEND_SIGNALED;
	b->details.flags = ends.wr_flags;
	if (c->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		get_operands(c, &b->details);
	return first.bad || last.bad ? -EBADMSG : 0;
}

static int set_destination(struct qp *q, const struct sr_log_call *c)
{
	struct sr_cursor at = {.p = c->in, .end = c->in + c->in_size};
	struct sr_in_wr_set_ud_addr in;

	sr_get_in_wr_set_ud_addr(&at, &in);
	if (q->batch_n)
		q->batch[q->batch_n - 1].details.remote_qpn = in.remote_qpn;
	return at.bad ? -EBADMSG : 0;
}

static int set_data(struct process *p, size_t rank, struct qp *q, const struct sr_log_call *c)
{
	struct sr_cursor at = {.p = c->in, .end = c->in + c->in_size};
	const struct sr_keymap *lkeys = &p->links->ranks[rank].lkeys;
	union {
		struct sr_in_wr_set_sge sge;
		struct sr_in_wr_set_sge_list list;
		struct sr_in_wr_set_inline_data data;
		struct sr_in_wr_set_inline_data_list data_list;
	} in;
	struct built *b;
	struct pieces pieces;
	int err = 0;

	if (!q->batch_n)
		return 0;
	b = &q->batch[q->batch_n - 1];
	b->details.pieces_n = 0;
	switch (c->what) {
	case SR_WHAT_SET_SGE:
		sr_get_in_wr_set_sge(&at, &in.sge);
		err = keep_piece(&b->details, lkeys,
				 &(struct ibv_sge){in.sge.addr, in.sge.length, in.sge.lkey});
		b->rq.first_sge = sr_log_address_of(lkeys, in.sge.lkey, in.sge.addr);
		b->rq.length = in.sge.length;
		b->rq.pieces = 1;
		break;
	case SR_WHAT_SET_SGE_LIST:
		sr_get_in_wr_set_sge_list(&at, &in.list);
		err = get_pieces(&at, in.list.sg_list_n, lkeys, &pieces, &b->details);
		if (err)
			return err;
		b->rq.length = pieces.length;
		b->rq.pieces = (uint16_t)b->details.pieces_n;
		if (pieces.length)
			b->rq.first_sge =
			    sr_log_address_of(lkeys, pieces.first_key, pieces.first);
		break;
	case SR_WHAT_SET_INLINE:
		sr_get_in_wr_set_inline_data(&at, &in.data);
		b->rq.length = in.data.length;
		b->checksum = in.data.checksum;
		b->details.flags |= IBV_SEND_INLINE;
		break;
	default: /* the trace has only the checksum of an inline list */
		sr_get_in_wr_set_inline_data_list(&at, &in.data_list);
		b->checksum = in.data_list.checksum;
		b->details.flags |= IBV_SEND_INLINE;
		break;
	}
	return at.bad ? -EBADMSG : err;
}

int sr_log_batch(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	struct sr_cursor at = {.p = c->in, .end = c->in + c->in_size};
	struct sr_in_wr_start in;
	struct qp *q;
	int err = 0;

	/* The queue pair is the first argument of all of them. */
	sr_get_in_wr_start(&at, &in);
	q = sr_log_qp_at_or_new(r, in.qp);
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
	case SR_WHAT_SET_UD_ADDR:
		return set_destination(q, c);
	case SR_WHAT_BATCH_COMPLETE:
		for (size_t i = 0; !c->result && i < q->batch_n && !err; i++) {
			struct built *b = &q->batch[i];

			b->rq.at = *sr_knowledge_now(p->knowledge, rank);
			err = posted(p, rank, q, &b->rq, &b->details, b->checksum, b->rkey);
		}
		break;
	default:
		break;
	}
	q->batch_n = 0;
	return err;
}

/* Receives matter to those who ask for them only: nothing is known of what comes. */
int sr_log_post_recv(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	struct sr_cursor at = {.p = c->in, .end = c->in + c->in_size};
	struct sr_cursor out = {.p = c->out, .end = c->out + c->out_size};
	struct sr_in_post_recv in;
	struct sr_out_post_recv bad;
	int err = 0;

	if (!p->hooks->receives)
		return 0;
	sr_get_in_post_recv(&at, &in);
	sr_get_out_post_recv(&out, &bad);
	for (uint32_t i = 0; i < in.wr_n && !(bad.has_bad_wr && i >= bad.bad_wr) && !err; i++) {
		struct sr_wire_recv_wr w;
		struct pieces pieces;

		sr_get_recv_wr_fields(&at, &w);
		err = get_pieces(&at, w.sg_list_n, &p->links->ranks[rank].lkeys, &pieces, &p->details);
		if (!err)
			err = p->hooks->receives(
			    p->hooks->argument,
			    &(struct sr_receives){.rank = rank,
						  .at = *sr_knowledge_now(p->knowledge, rank),
						  .queue = in.qp,
						  .site = c->site,
						  .wr_id = w.wr_id,
						  .pieces = p->details.pieces,
						  .pieces_n = p->details.pieces_n,
						  .is_shared = c->what == SR_WHAT_POST_SRQ_RECV});
	}
	return err;
}
