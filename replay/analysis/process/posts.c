/* SPDX-License-Identifier: BSD-2-Clause */
/* posts.c: requests; see process_own.h. */
#include "replay/analysis/process/own.h"

#include <errno.h>
#include <stdlib.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/log/wire.h"

/* A request is in the queue now; rq's own fields are filled in. */
static int posted(struct process *p, size_t rank, struct qp *q, const struct request *rq,
		  uint64_t checksum, uint32_t rkey)
{
	struct message *m;
	size_t to = sr_log_peer_of(p, q);
	const struct qp *other = sr_log_other_end(p, q);

	if (sr_log_add_request(q, rq))
		return -ENOMEM;
	if (sr_op(rq->opcode) & SR_OP_RECEIVED && to != SR_NO_RANK && !(other && other->deaf)) {
		m = sr_log_push(&q->messages, sizeof(*m));
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
	    &(struct sr_posted){
		.rank = rank,
		.at = rq->at,
		.site = p->ranks[rank].call.site,
		.request = rq->number,
		.opcode = rq->opcode,
		.qp_num = q->qp_num,
		.length = rq->length,
		.checksum = checksum,
		.to = to,
		.address = sr_op(rq->opcode) & SR_OP_REMOTE && to != SR_NO_RANK
			       ? sr_log_address_of(&p->links->ranks[to].rkeys, rkey, rq->remote)
			       : rq->remote});
}

/* A list of pieces: its length, and its first piece that is not empty. */
struct pieces {
	uint64_t length, first;
	uint32_t first_key;
};

static struct pieces get_pieces(struct sr_cursor *c, uint64_t n)
{
	struct pieces v = {0};

	for (uint64_t i = 0; i < n && !c->bad; i++) {
		struct ibv_sge sge;

		sr_get_ibv_sge(c, &sge);
		if (!v.length) {
			v.first = sge.addr;
			v.first_key = sge.lkey;
		}
		v.length += sge.length;
	}
	return v;
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

int sr_log_post_send(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	struct sr_cursor in = {.p = c->in, .end = c->in + c->in_size};
	struct qp *q = sr_log_qp_at_or_new(r, sr_get_u64(&in));
	uint32_t n = accepted(c, sr_get_u32(&in));
	const struct sr_keymap *lkeys = &p->links->ranks[rank].lkeys;
	int err = q ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && !err; i++) {
		struct sr_wire_send_wr w;
		struct pieces pieces;
		bool fetches;

		sr_get_send_wr_fields(&in, &w);
		pieces = get_pieces(&in, w.sg_list_n);
		if (in.bad)
			return -EBADMSG;
		fetches = sr_op(w.opcode) & SR_OP_SCATTERS;
		err = posted(p, rank, q,
			     &(struct request){
				 .at = *sr_knowledge_now(p->knowledge, rank),
				 .send = {.wr_id = w.wr_id,
					  .signaled = q->sig_all ||
						      w.send_flags & IBV_SEND_SIGNALED},
				 .length = pieces.length,
				 .remote = w.remote_addr,
				 .first_sge = fetches ? sr_log_address_of(lkeys, pieces.first_key,
									  pieces.first)
						      : 0,
				 .number = (uint16_t)i,
				 .opcode = (uint8_t)w.opcode,
				 .fetches = fetches},
			     w.checksum, w.rkey);
	}
	return err;
}

/* ---- the builders: a batch is posted when it is complete ---- */

/* The last arguments of every builder: wr_id and wr_flags. */
#define TAIL (sizeof(uint64_t) + sizeof(uint32_t))

static int build(struct qp *q, const struct sr_log_call *c)
{
	struct sr_cursor in = {.p = c->in, .end = c->in + c->in_size};
	struct sr_cursor tail = {.p = c->in + c->in_size - TAIL, .end = c->in + c->in_size};
	struct built *b;

	if (c->in_size < sizeof(uint64_t) + TAIL)
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
				   .fetches = sr_op(c->opcode) & SR_OP_SCATTERS}};
	sr_get_u64(&in); /* the queue pair */
	if (c->what == SR_WHAT_BUILD_REMOTE) {
		b->rkey = sr_get_u32(&in);
		b->rq.remote = sr_get_u64(&in);
		b->rq.length = c->opcode == IBV_WR_ATOMIC_WRITE ? 8 : 0;
	}
	b->rq.send.wr_id = sr_get_u64(&tail);
	b->rq.send.signaled = q->sig_all || sr_get_u32(&tail) & IBV_SEND_SIGNALED;
	return in.bad || tail.bad ? -EBADMSG : 0;
}

static int set_data(struct process *p, size_t rank, struct qp *q, const struct sr_log_call *c)
{
	struct sr_cursor in = {.p = c->in, .end = c->in + c->in_size};
	const struct sr_keymap *lkeys = &p->links->ranks[rank].lkeys;
	struct built *b;
	struct pieces pieces;
	uint32_t key;
	uint64_t addr;

	if (!q->batch_n)
		return 0;
	b = &q->batch[q->batch_n - 1];
	sr_get_u64(&in); /* the queue pair */
	switch (c->what) {
	case SR_WHAT_SET_SGE:
		key = sr_get_u32(&in);
		addr = sr_get_u64(&in);
		b->rq.first_sge = sr_log_address_of(lkeys, key, addr);
		b->rq.length = sr_get_u32(&in);
		break;
	case SR_WHAT_SET_SGE_LIST:
		pieces = get_pieces(&in, sr_get_u32(&in));
		b->rq.length = pieces.length;
		if (pieces.length)
			b->rq.first_sge =
			    sr_log_address_of(lkeys, pieces.first_key, pieces.first);
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

int sr_log_batch(struct process *p, size_t rank)
{
	struct rank *r = &p->ranks[rank];
	const struct sr_log_call *c = &r->call;
	struct sr_cursor in = {.p = c->in, .end = c->in + c->in_size};
	struct qp *q = sr_log_qp_at_or_new(r, sr_get_u64(&in));
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
