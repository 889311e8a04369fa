/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace_calls.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/codec.h"
#include "shim/verbs/objects.h"
#include "wire.gen.h"

/* The shim's takes memory from its arena. */
bool sr_buf_grow(struct sr_buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 4096;
	uint8_t *p;

	while (cap - b->len < n)
		cap *= 2;
	p = realloc(b->p, cap);
	if (!p)
		abort();
	b->p = p;
	b->cap = cap;
	return true;
}

static struct sr_buf in, out;

static uint64_t put(struct trace_maker *m, int rank, uint32_t thread, enum sr_call_number n,
		    uint64_t result, uint64_t order)
{
	uint64_t sn = trace_maker_call_ordered(m, rank, thread, n, result, in.p, in.len, out.p,
					       out.len, &order, order ? 1 : 0);

	in.len = out.len = 0;
	return sn;
}

static void modify(struct trace_maker *m, int rank, uint32_t thread, struct ibv_qp *qp,
		   uint64_t address, const struct ibv_qp_attr *attr, int mask)
{
	sr_put_u64(&in, address);
	sr_put_u32(&in, (uint32_t)mask);
	sr_put_ibv_qp_attr(&in, attr);
	sr_put_bytes(&out, qp, sizeof(*qp));
	put(m, rank, thread, SR_CALL_ibv_modify_qp, 0, 0);
}

void trace_qp(struct trace_maker *m, int rank, uint32_t thread, uint64_t address, uint32_t qp_num,
	      uint32_t peer_qp_num, uint32_t psn, uint32_t peer_psn)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct ibv_qp qp = {.qp_num = qp_num, .qp_type = IBV_QPT_RC};

	sr_put_u64(&in, 0x1000);
	sr_put_u8(&in, 1);
	sr_put_ibv_qp_init_attr(&in, &init);
	sr_put_u8(&out, 1);
	sr_put_bytes(&out, &qp, sizeof(qp));
	sr_put_u8(&out, 1);
	sr_put_ibv_qp_init_attr(&out, &init);
	put(m, rank, thread, SR_CALL_ibv_create_qp, address, 0);
	modify(m, rank, thread, &qp, address, &(struct ibv_qp_attr){.qp_state = IBV_QPS_INIT},
	       IBV_QP_STATE);
	modify(m, rank, thread, &qp, address,
	       &(struct ibv_qp_attr){
		   .qp_state = IBV_QPS_RTR, .dest_qp_num = peer_qp_num, .rq_psn = peer_psn},
	       IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	modify(m, rank, thread, &qp, address,
	       &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = psn},
	       IBV_QP_STATE | IBV_QP_SQ_PSN);
}

uint64_t trace_post_send(struct trace_maker *m, int rank, uint32_t thread, uint64_t qp,
			 const struct trace_request *requests, uint32_t n, uint64_t order)
{
	sr_put_u64(&in, qp);
	sr_put_u32(&in, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct trace_request *r = &requests[i];
		struct ibv_sge sge = {.addr = r->address, .length = r->length, .lkey = 1};
		struct sr_wire_send_wr v = {.wr_id = r->wr_id,
					    .opcode = r->opcode,
					    .send_flags = r->unsignaled ? 0 : IBV_SEND_SIGNALED,
					    .remote_addr = r->remote,
					    .rkey = 2,
					    .checksum = 3,
					    .sg_list = &sge,
					    .sg_list_n = 1};

		sr_put_send_wr_fields(&in, &v);
	}
	sr_put_u8(&out, 0);
	return put(m, rank, thread, SR_CALL_post_send, 0, order);
}

void trace_bind_mw(struct trace_maker *m, int rank, uint32_t thread, uint64_t qp, uint64_t wr_id,
		   int result)
{
	struct ibv_mw_bind bind = {.wr_id = wr_id, .send_flags = IBV_SEND_SIGNALED};

	sr_put_u64(&in, qp);
	sr_put_u64(&in, 0x3000);
	sr_put_u8(&in, 1);
	sr_put_ibv_mw_bind(&in, &bind);
	sr_put_u8(&out, !result);
	if (!result)
		sr_put_u32(&out, 4);
	put(m, rank, thread, SR_CALL_bind_mw, (uint64_t)result, 0);
}

uint64_t trace_poll_cq(struct trace_maker *m, int rank, uint32_t thread,
		       const struct trace_completion *completions, uint32_t n, uint64_t order)
{
	uint32_t segments = 0;

	sr_put_u64(&in, 0x2000);
	sr_put_u32(&in, 16);
	sr_put_u8(&out, n > 0);
	if (n)
		sr_put_u32(&out, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct trace_completion *c = &completions[i];
		struct ibv_wc wc = {.wr_id = c->wr_id,
				    .status = c->status,
				    .opcode = c->opcode,
				    .byte_len = c->length,
				    .qp_num = c->qp_num};

		sr_put_ibv_wc(&out, &wc);
		segments += c->address != 0;
	}
	sr_put_u8(&out, n > 0);
	if (n)
		sr_put_u32(&out, segments);
	for (uint32_t i = 0; i < n; i++) {
		const struct trace_completion *c = &completions[i];

		if (!c->address)
			continue;
		sr_put_u64(&out, c->address);
		sr_put_bytes(&out, c->data, c->length);
	}
	return put(m, rank, thread, SR_CALL_poll_cq, n, order);
}
