/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock_posts.c: the shim's own requests around those of the program; see clocks.h.  The caller
 * holds the queue's lock on posts.
 */
#include "shim/verbs/clock_posts.h"

#include "shim/core/call.h"
#include "shim/verbs/clocks/clocks.h"
#include "logd/base/opcodes.h"

bool sr_clock_goes_before(enum ibv_wr_opcode opcode)
{
	return sr_op(opcode) & (SR_OP_CHANGES | SR_OP_RECEIVED);
}

static enum ibv_wc_opcode completes_as(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_RDMA_READ;
	}
}

static struct sr_wqe *take(struct sr_qp *q, enum sr_wqe_role role)
{
	struct sr_wqe *wqe = sr_wqe_take(q->sq, 0, SR_WQE_SOURCE, NULL, 0);

	if (wqe)
		wqe->role = role;
	return wqe;
}

struct sr_wqe *sr_clock_take_before(struct sr_qp *q, struct sr_wqe *program)
{
	struct sr_wqe *wqe = take(q, SR_WQE_CLOCK);

	if (!wqe)
		return NULL;
	wqe->other = program;
	return wqe;
}

struct sr_wqe *sr_clock_take_behind(struct sr_qp *q, struct sr_wqe *fetch,
				    enum ibv_wr_opcode opcode)
{
	struct sr_wqe *wqe = take(q, SR_WQE_READER);

	if (!wqe)
		return NULL;
	wqe->request.wr_id = fetch->request.wr_id;
	wqe->stands = wqe->request.signaled = fetch->request.signaled;
	wqe->dropped = false;
	wqe->opcode = completes_as(opcode);
	wqe->length = 0;
	for (uint32_t i = 0; i < fetch->num_sge; i++)
		wqe->length += fetch->sge[i].length;
	fetch->request.signaled = false;
	fetch->other = wqe;
	return wqe;
}

/*
 * CLOCKs write the words of the cell alternately: while one is being written, the other one
 * holds the number before it.
 */
static uint64_t next_word(struct sr_clock_qp *c)
{
	uint64_t address = c->cell[c->ticket];

	c->ticket = (c->ticket + 1) % SR_CLOCK_CELL_WORDS;
	return address;
}

void sr_clock_was_not_posted(struct sr_qp *q)
{
	q->clock->ticket = (q->clock->ticket + SR_CLOCK_CELL_WORDS - 1) % SR_CLOCK_CELL_WORDS;
}

/* Sets only the fields that a WRITE or READ uses; the whole struct has 128 bytes. */
static void fill(const struct sr_qp *q, struct sr_wqe *wqe, struct ibv_send_wr *wr,
		 enum ibv_wr_opcode opcode, unsigned int flags)
{
	wr->wr_id = (uintptr_t)wqe;
	wr->num_sge = 1;
	wr->opcode = opcode;
	wr->send_flags = flags;
	wr->imm_data = 0;
	wr->wr.rdma.rkey = q->clock->rkey;
	wr->qp_type.xrc.remote_srqn = q->clock->shared_queue;
}

void sr_clock_fill_before(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_send_wr *wr)
{
	fill(q, wqe, wr, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE);
	wr->sg_list = &q->clock->word_sge;
	wr->wr.rdma.remote_addr = next_word(q->clock);
}

static unsigned int reader_flags(const struct sr_qp *q, const struct sr_wqe *wqe)
{
	return q->clock->fence | (wqe->stands ? IBV_SEND_SIGNALED : 0);
}

void sr_clock_fill_behind(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_send_wr *wr)
{
	fill(q, wqe, wr, IBV_WR_RDMA_READ, reader_flags(q, wqe));
	wr->sg_list = &q->clock->read_sge;
	wr->wr.rdma.remote_addr = q->clock->cells;
}

static void name_shared_queue(const struct sr_clock_qp *c, struct ibv_qp_ex *ex)
{
	if (c->shared_queue)
		sr_real(&sr_calls[SR_CALL_wr_set_xrc_srqn],
			(uint64_t[]){(uintptr_t)ex, c->shared_queue});
}

/* wr_id and wr_flags belong to the program, so they are restored. */
void sr_clock_build_before(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_qp_ex *ex)
{
	struct sr_clock_qp *c = q->clock;
	uint64_t wr_id = ex->wr_id;
	unsigned int flags = ex->wr_flags;

	ex->wr_id = (uintptr_t)wqe;
	/*
	 * Soft-RoCE's library does not set this flag in wr_set_inline_data, and without it the
	 * kernel driver would look for an sge.
	 */
	ex->wr_flags = IBV_SEND_INLINE;
	sr_real(&sr_calls[SR_CALL_wr_rdma_write], (uint64_t[]){(uintptr_t)ex, c->rkey, next_word(c)});
	name_shared_queue(c, ex);
	sr_real(&sr_calls[SR_CALL_wr_set_inline_data],
		(uint64_t[]){(uintptr_t)ex, (uintptr_t)&c->word, SR_CLOCK_WORD_BYTES});
	ex->wr_id = wr_id;
	ex->wr_flags = flags;
}

void sr_clock_build_behind(struct sr_qp *q, struct sr_wqe *wqe, struct ibv_qp_ex *ex)
{
	struct sr_clock_qp *c = q->clock;
	uint64_t wr_id = ex->wr_id;
	unsigned int flags = ex->wr_flags;

	ex->wr_id = (uintptr_t)wqe;
	ex->wr_flags = reader_flags(q, wqe);
	sr_real(&sr_calls[SR_CALL_wr_rdma_read], (uint64_t[]){(uintptr_t)ex, c->rkey, c->cells});
	name_shared_queue(c, ex);
	sr_real(&sr_calls[SR_CALL_wr_set_sge], (uint64_t[]){(uintptr_t)ex, c->read_sge.lkey,
							    c->read_sge.addr, c->read_sge.length});
	ex->wr_id = wr_id;
	ex->wr_flags = flags;
}
