/* SPDX-License-Identifier: BSD-2-Clause */
/* posts.c: requests and their effect on the peer; see requests.h. */
#include "shim/replay/group/requests.h"

#include "logd/base/opcodes.h"
#include "shim/memory/heap.h"
#include "shim/replay/group/datagrams.h"
#include "shim/replay/group/fetches.h"
#include "shim/verbs/objects.h"

/* The memory of the request's list.  A piece is NULL if the CPU has no address for it. */
static uint32_t pieces_of(const struct sr_request_qp *q, const struct sr_request *r,
			  struct sr_piece *pieces, uint32_t room)
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

static uint32_t length_of(const struct sr_piece *pieces, uint32_t n)
{
	uint32_t length = 0;

	for (uint32_t i = 0; i < n; i++)
		length += pieces[i].length;
	return length;
}

#define MAX_PIECES 256

/* From now on data may arrive in the memory of the request's list. */
static void expect(const struct sr_request *r, const struct sr_group_origin *origin, enum sr_group_write_kind kind)
{
	for (uint32_t i = 0; i < r->num_sge; i++)
		sr_contents_expected(origin, kind, r->sge[i].addr, r->sge[i].length);
}

/* The request's results may land in the memory of its list. */
static void begin_fetch(const struct sr_request_qp *q, struct sr_request *r)
{
	struct sr_fetch f = {.member = q->peer, .remote_addr = r->remote_addr, .origin = r->origin};

	for (uint32_t i = 0; i < r->num_sge; i++) {
		uint64_t number;

		f.addr = r->sge[i].addr;
		f.length = r->sge[i].length;
		number = sr_fetch_posted(&f);
		if (!i)
			r->fetch = number;
		f.remote_addr += f.length;
	}
}

static void add_atomic(const struct sr_request_qp *q, struct sr_request *r, const struct sr_group_origin *origin)
{
	const bool swaps = r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	const struct sr_group_operands o = {swaps ? r->swap : r->compare_add, r->compare_add};

	r->change = sr_history_add_atomic((uint32_t)q->peer, origin, r->remote_addr, swaps, &o);
}

/* Applies the request to the peer and makes it outstanding. */
static void post(struct sr_thread *t, struct sr_request_qp *q, struct sr_request *r,
		 const struct sr_group_origin *origin)
{
	static struct sr_piece pieces[MAX_PIECES];
	const unsigned does = sr_op(r->opcode);
	const struct sr_transfer_by transfer_by = {.channel = q->out,
						   .opcode = r->opcode,
						   .imm_data = r->imm_data,
						   .remote_addr = r->remote_addr};
	const struct sr_transfer_by *by = sr_request_is_transferred(q) ? &transfer_by : NULL;
	uint32_t n = 0;

	r->origin = *origin;
	r->send.completes_as = (uint8_t)sr_op_completes_as(r->opcode);
	sr_send_queue_post(&q->sends, &r->send);
	if (does & SR_OP_SCATTERS) {
		expect(r, origin, q->peer < 0 ? SR_GROUP_UNSEEN : SR_GROUP_FETCHED);
		begin_fetch(q, r);
	}
	if (q->peer < 0 && q->qp->qp_type != IBV_QPT_UD)
		return;
	if (sr_group_over_device() && !by)
		atomic_fetch_add(&sr_group_memory->proxy.others, 1);
	if (does & SR_OP_GATHERS)
		n = pieces_of(q, r, pieces, MAX_PIECES);
	if (q->qp->qp_type == IBV_QPT_UD) {
		sr_datagram_sent(q, r, origin, pieces, n);
		return;
	}
	if (does & SR_OP_CHANGES && does & SR_OP_GATHERS)
		sr_history_add((uint32_t)q->peer, origin, SR_GROUP_BYTES, r->remote_addr, by,
			       pieces, n);
	if (does & SR_OP_ATOMIC)
		add_atomic(q, r, origin);
	if (!(does & SR_OP_RECEIVED) || !q->out)
		return;
	/* A WRITE with immediate data consumes a receive, but brings no bytes to its buffers. */
	if (does & SR_OP_CHANGES)
		sr_channel_send(q->out, origin, r->opcode, NULL, NULL, 0, length_of(pieces, n));
	else
		sr_channel_send(q->out, origin, r->opcode, by, pieces, n, 0);
}

static struct sr_request *of_send_wr(const struct sr_request_qp *q, const struct ibv_send_wr *wr)
{
	struct sr_request *r = sr_request_new(wr->sg_list, wr->num_sge);

	if (!r)
		return NULL;
	r->send.wr_id = wr->wr_id;
	r->opcode = wr->opcode;
	r->send.signaled = q->sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	r->is_inline = wr->send_flags & IBV_SEND_INLINE;
	r->imm_data = wr->imm_data;
	if (q->qp->qp_type == IBV_QPT_UD)
		r->remote_qpn = wr->wr.ud.remote_qpn;
	if (sr_op(wr->opcode) & SR_OP_ATOMIC) {
		r->remote_addr = wr->wr.atomic.remote_addr;
		r->compare_add = wr->wr.atomic.compare_add;
		r->swap = wr->wr.atomic.swap;
	} else if (sr_op(wr->opcode) & SR_OP_REMOTE) {
		r->remote_addr = wr->wr.rdma.remote_addr;
	}
	return r;
}

void sr_request_post_send(struct sr_thread *t, const uint64_t *a, int result)
{
	const struct ibv_send_wr *bad = result ? *(struct ibv_send_wr **)a[2] : NULL;
	struct ibv_qp *qp = (struct ibv_qp *)a[0];
	struct sr_group_origin origin = sr_progress_post(t, qp->qp_num);
	struct sr_request_qp *q = sr_request_qp(qp);

	for (const struct ibv_send_wr *wr = (void *)a[1]; q && wr && wr != bad; wr = wr->next) {
		struct sr_request *r = of_send_wr(q, wr);

		if (r)
			post(t, q, r, &origin);
		origin.request++;
	}
}

/* ibv_bind_mw posts a request of its own, which communicates nothing. */
void sr_request_post_bind(struct sr_thread *t, const uint64_t *a)
{
	const struct ibv_mw_bind *bind = (void *)a[2];
	const struct sr_group_origin origin = sr_progress_now(t, NULL);
	struct sr_request_qp *q = sr_request_qp((struct ibv_qp *)a[0]);
	struct sr_request *r = q ? sr_request_new(NULL, 0) : NULL;

	if (!r)
		return;
	r->send.wr_id = bind->wr_id;
	r->send.signaled = q->sig_all || bind->send_flags & IBV_SEND_SIGNALED;
	r->opcode = IBV_WR_BIND_MW;
	post(t, q, r, &origin);
}

void sr_request_post_receives(struct sr_thread *t, struct sr_recv_queue *to,
			      const struct ibv_recv_wr *wr, const struct ibv_recv_wr *bad)
{
	const struct sr_group_origin now = sr_progress_now(t, NULL);

	for (; to && wr && wr != bad; wr = wr->next) {
		struct sr_request *r = sr_request_new(wr->sg_list, wr->num_sge);

		if (!r)
			return;
		r->receive.wr_id = wr->wr_id;
		r->fetch = sr_fetch_ends();
		expect(r, &now, SR_GROUP_UNSEEN);
		sr_recv_queue_post(to, &r->receive);
	}
}

/* ----------------------------------------------------------------- builders */

/* The meaning of the builder's arguments, by index; 0: it has no such argument. */
struct builder {
	bool builds;
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t remote_addr, imm_data, compare_add, swap, inlined;
};

static const struct builder builders[SR_CALL_COUNT] = {
    [SR_CALL_wr_send] = {true, IBV_WR_SEND},
    [SR_CALL_wr_send_imm] = {true, IBV_WR_SEND_WITH_IMM, .imm_data = 1},
    [SR_CALL_wr_send_inv] = {true, IBV_WR_SEND_WITH_INV, .imm_data = 1},
    [SR_CALL_wr_send_tso] = {true, IBV_WR_TSO},
    [SR_CALL_wr_rdma_write] = {true, IBV_WR_RDMA_WRITE, .remote_addr = 2},
    [SR_CALL_wr_rdma_write_imm] = {true, IBV_WR_RDMA_WRITE_WITH_IMM, .remote_addr = 2,
				   .imm_data = 3},
    [SR_CALL_wr_rdma_read] = {true, IBV_WR_RDMA_READ, .remote_addr = 2},
    [SR_CALL_wr_atomic_cmp_swp] = {true, IBV_WR_ATOMIC_CMP_AND_SWP, .remote_addr = 2,
				   .compare_add = 3, .swap = 4},
    [SR_CALL_wr_atomic_fetch_add] = {true, IBV_WR_ATOMIC_FETCH_AND_ADD, .remote_addr = 2,
				     .compare_add = 3},
    [SR_CALL_wr_atomic_write] = {true, IBV_WR_RDMA_WRITE, .remote_addr = 2, .inlined = 3},
    [SR_CALL_wr_local_inv] = {true, IBV_WR_LOCAL_INV},
    [SR_CALL_wr_bind_mw] = {true, IBV_WR_BIND_MW},
    [SR_CALL_wr_flush] = {true, SR_WR_FLUSH},
};

static void append_to_batch(struct sr_request_qp *q, struct sr_request *r)
{
	if (q->batch_last)
		q->batch_last->built = r;
	else
		q->batch = r;
	q->batch_last = r;
}

static uint64_t argument(const uint64_t *a, uint8_t i)
{
	return i ? a[i] : 0;
}

static void begin_request(const struct builder *b, struct ibv_qp_ex *ex, const uint64_t *a)
{
	struct sr_request_qp *q = sr_request_qp(&ex->qp_base);
	struct sr_request *r = q ? sr_request_new(NULL, 0) : NULL;

	if (!r)
		return;
	r->send.wr_id = ex->wr_id;
	r->send.signaled = q->sig_all || ex->wr_flags & IBV_SEND_SIGNALED;
	r->opcode = b->opcode;
	r->remote_addr = argument(a, b->remote_addr);
	r->imm_data = (uint32_t)argument(a, b->imm_data);
	r->compare_add = argument(a, b->compare_add);
	r->swap = argument(a, b->swap);
	if (b->inlined)
		sr_put_raw(&r->inlined, (void *)a[b->inlined], sizeof(uint64_t));
	append_to_batch(q, r);
}

static struct sr_request *being_built(struct ibv_qp_ex *ex)
{
	struct sr_request_qp *q = sr_request_qp(&ex->qp_base);

	return q ? q->batch_last : NULL;
}

static void set_inline(struct sr_request *r, const struct ibv_data_buf *pieces, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sr_put_raw(&r->inlined, pieces[i].addr, pieces[i].length);
}

static void set_data(enum sr_call_number n, struct sr_request *r, const uint64_t *a)
{
	switch (n) {
	case SR_CALL_wr_set_sge:
		sr_request_set_list(r, &(struct ibv_sge){a[2], (uint32_t)a[3], (uint32_t)a[1]}, 1);
		break;
	case SR_CALL_wr_set_sge_list:
		sr_request_set_list(r, (void *)a[2], (uint32_t)a[1]);
		break;
	case SR_CALL_wr_set_inline_data:
		set_inline(r, &(struct ibv_data_buf){(void *)a[1], a[2]}, 1);
		break;
	case SR_CALL_wr_set_inline_data_list:
		set_inline(r, (void *)a[2], a[1]);
		break;
	case SR_CALL_wr_set_ud_addr:
		r->remote_qpn = (uint32_t)a[2];
		break;
	default:
		break;
	}
}

static bool sets_data(enum sr_call_number n)
{
	return n == SR_CALL_wr_set_sge || n == SR_CALL_wr_set_sge_list ||
	       n == SR_CALL_wr_set_inline_data || n == SR_CALL_wr_set_inline_data_list || n == SR_CALL_wr_set_ud_addr;
}

void sr_request_build(enum sr_call_number n, const uint64_t *a)
{
	struct ibv_qp_ex *ex = (void *)a[0];
	struct sr_request *r;

	if (builders[n].builds) {
		begin_request(&builders[n], ex, a);
	} else if (sets_data(n)) {
		r = being_built(ex);
		if (r)
			set_data(n, r, a);
	}
}

static struct sr_request *take_batch(struct sr_request_qp *q)
{
	struct sr_request *batch = q->batch;

	q->batch = q->batch_last = NULL;
	return batch;
}

void sr_request_drop_batch(struct sr_request_qp *q)
{
	struct sr_request *next;

	for (struct sr_request *r = take_batch(q); r; r = next) {
		next = r->built;
		sr_request_free(r);
	}
}

void sr_request_post_batch(struct sr_thread *t, struct ibv_qp_ex *ex, int result)
{
	struct sr_group_origin origin = sr_progress_post(t, ex->qp_base.qp_num);
	struct sr_request_qp *q = sr_request_qp(&ex->qp_base);
	struct sr_request *next;

	if (!q)
		return;
	if (result)
		sr_request_drop_batch(q);
	for (struct sr_request *r = take_batch(q); r; r = next) {
		next = r->built;
		post(t, q, r, &origin);
		origin.request++;
	}
}
