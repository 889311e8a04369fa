/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c: the operations that post requests, and the builders of ibv_qp_ex. */
#include <errno.h>
#include <string.h>

#include "standin.h"

/* ------------------------------------------------------------------ sends */

static bool sq_is_full(const struct si_qp *qp)
{
	return qp->sq_tail + qp->built - qp->sq_freed == qp->init.cap.max_send_wr;
}

static struct si_send *sq_slot(struct si_qp *qp, uint32_t index)
{
	return &qp->sq[index % qp->init.cap.max_send_wr];
}

/* A queue pair without a peer takes requests in any state. */
static bool takes_sends(const struct si_qp *qp)
{
	return !qp->connected || qp->qp.state == IBV_QPS_RTS || qp->qp.state == IBV_QPS_ERR;
}

static int append_inline(struct si_qp *qp, struct si_send *s, const void *p, size_t length)
{
	if (length > qp->init.cap.max_inline_data - s->inline_length)
		return EINVAL;
	memcpy(s->inline_data + s->inline_length, p, length);
	s->inline_length += (uint32_t)length;
	return 0;
}

static int take_list(struct si_qp *qp, struct si_send *s, const struct ibv_sge *sge, size_t n)
{
	int err = 0;

	if (n > qp->init.cap.max_send_sge)
		return EINVAL;
	if (s->flags & IBV_SEND_INLINE) {
		for (size_t i = 0; i < n && !err; i++)
			err = append_inline(qp, s, (void *)(uintptr_t)sge[i].addr, sge[i].length);
		return err;
	}
	memcpy(s->sge, sge, n * sizeof(*sge));
	s->num_sge = (uint32_t)n;
	return 0;
}

static void copy_operation(struct si_send *s, const struct ibv_send_wr *wr, enum ibv_qp_type type)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		s->remote_addr = wr->wr.rdma.remote_addr;
		s->rkey = wr->wr.rdma.rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		s->remote_addr = wr->wr.atomic.remote_addr;
		s->rkey = wr->wr.atomic.rkey;
		s->compare_add = wr->wr.atomic.compare_add;
		s->swap = wr->wr.atomic.swap;
		break;
	default:
		break;
	}
	if (type == IBV_QPT_UD) {
		s->remote_qpn = wr->wr.ud.remote_qpn;
		s->remote_qkey = wr->wr.ud.remote_qkey;
	} else if (type == IBV_QPT_XRC_SEND) {
		s->remote_srqn = wr->qp_type.xrc.remote_srqn;
	}
}

static int post_one(struct si_qp *qp, const struct ibv_send_wr *wr)
{
	struct si_send *s;
	int err;

	if (sq_is_full(qp))
		return ENOMEM;
	if (si_fails(qp->qp.qp_context, ++qp->asked, 50))
		return EIO;
	if (!takes_sends(qp))
		return EINVAL;
	if (wr->num_sge > (int)qp->init.cap.max_send_sge)
		return EINVAL;
	s = sq_slot(qp, qp->sq_tail);
	s->wr_id = wr->wr_id;
	s->opcode = wr->opcode;
	s->flags = wr->send_flags;
	if (!qp->connected) {
		qp->sq_tail++;
		si_complete_unsent(qp, s, IBV_WC_SUCCESS);
		return 0;
	}
	s->imm_data = wr->imm_data;
	s->num_sge = s->inline_length = 0;
	copy_operation(s, wr, qp->qp.qp_type);
	err = take_list(qp, s, wr->sg_list, wr->num_sge > 0 ? (size_t)wr->num_sge : 0);
	if (err)
		return err;
	qp->sq_tail++;
	if (qp->qp.state == IBV_QPS_ERR)
		si_complete_unsent(qp, s, IBV_WC_WR_FLUSH_ERR);
	return 0;
}

int si_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct si_qp *q = (struct si_qp *)qp;
	bool locked = si_lock();
	int err = 0;

	for (; wr; wr = wr->next) {
		err = post_one(q, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	if (q->connected)
		si_progress();
	si_unlock(locked);
	return err;
}

/* --------------------------------------------------------------- receives */

static int post_recvs(struct si_rq *rq, const void *name, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct si_recv *r;
		bool full = rq->tail - rq->freed == rq->size;

		if (full || wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge) {
			*bad_wr = wr;
			return full ? ENOMEM : EINVAL;
		}
		if (si_fails(name, ++rq->asked << 32, 50)) {
			*bad_wr = wr;
			return EIO;
		}
		r = &rq->ring[rq->tail++ % rq->size];
		r->wr_id = wr->wr_id;
		r->num_sge = (uint32_t)wr->num_sge;
		memcpy(r->sge, wr->sg_list, r->num_sge * sizeof(r->sge[0]));
	}
	return 0;
}

int si_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct si_qp *q = (struct si_qp *)qp;
	bool locked = si_lock();
	int err = EINVAL;

	if (qp->srq || qp->state == IBV_QPS_RESET)
		*bad_wr = wr;
	else
		err = post_recvs(&q->rq, qp->qp_context, wr, bad_wr);
	if (qp->state == IBV_QPS_ERR)
		si_qp_fail(q); /* flushes them */
	si_progress();
	si_unlock(locked);
	return err;
}

int si_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	bool locked = si_lock();
	int err = post_recvs(&((struct si_srq *)srq)->rq, srq->srq_context, wr, bad_wr);

	si_progress();
	si_unlock(locked);
	return err;
}

/* --------------------------------------------------------------- builders */

/*
 * A batch fills slots behind sq_tail; the first error makes the whole batch fail. As on a
 * device, no other thread posts to the queue until the batch is complete.
 */
static void wr_start(struct ibv_qp_ex *ex)
{
	struct si_qp *qp = (struct si_qp *)ex;
	bool locked = si_lock();

	qp->build_locked = locked;
	qp->built = 0;
	qp->build_error = 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct si_qp *qp = (struct si_qp *)ex;

	qp->built = 0;
	qp->build_error = 0;
	si_unlock(qp->build_locked);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct si_qp *qp = (struct si_qp *)ex;
	int err = qp->build_error ? qp->build_error : takes_sends(qp) ? 0 : EINVAL;
	uint32_t n = err ? 0 : qp->built;

	qp->built = 0;
	for (; n; n--) {
		struct si_send *s = sq_slot(qp, qp->sq_tail++);

		if (!qp->connected)
			si_complete_unsent(qp, s, IBV_WC_SUCCESS);
		else if (qp->qp.state == IBV_QPS_ERR)
			si_complete_unsent(qp, s, IBV_WC_WR_FLUSH_ERR);
	}
	if (qp->connected)
		si_progress();
	si_unlock(qp->build_locked);
	return err;
}

/* The request being built; after an error, one that is never executed. */
static struct si_send *building(struct si_qp *qp)
{
	return sq_slot(qp, qp->sq_tail + qp->built - 1);
}

static struct si_send *build(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	static struct si_send nobody;
	struct si_qp *qp = (struct si_qp *)ex;
	struct si_send *s;

	if (qp->build_error || sq_is_full(qp)) {
		qp->build_error = qp->build_error ? qp->build_error : ENOMEM;
		return &nobody;
	}
	qp->built++;
	s = building(qp);
	s->wr_id = ex->wr_id;
	s->flags = ex->wr_flags;
	s->opcode = opcode;
	s->num_sge = s->inline_length = 0;
	return s;
}

static void build_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			 uint64_t addr)
{
	struct si_send *s = build(ex, opcode);

	s->rkey = rkey;
	s->remote_addr = addr;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	build(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	build(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm_data;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	build_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm_data)
{
	struct si_send *s = build(ex, IBV_WR_RDMA_WRITE_WITH_IMM);

	s->rkey = rkey;
	s->remote_addr = addr;
	s->imm_data = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	build_remote(ex, IBV_WR_RDMA_READ, rkey, addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	struct si_send *s = build(ex, IBV_WR_ATOMIC_CMP_AND_SWP);

	s->rkey = rkey;
	s->remote_addr = addr;
	s->compare_add = compare;
	s->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct si_send *s = build(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);

	s->rkey = rkey;
	s->remote_addr = addr;
	s->compare_add = add;
}

static void note_build_error(struct si_qp *qp, int err)
{
	if (!qp->build_error)
		qp->build_error = err;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct si_qp *qp = (struct si_qp *)ex;

	if (qp->build_error)
		return;
	building(qp)->remote_qpn = qpn;
	building(qp)->remote_qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct si_qp *qp = (struct si_qp *)ex;

	if (!qp->build_error)
		building(qp)->remote_srqn = srqn;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct si_qp *qp = (struct si_qp *)ex;

	if (!qp->build_error)
		note_build_error(qp, append_inline(qp, building(qp), addr, length));
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	for (size_t i = 0; i < n; i++)
		wr_set_inline_data(ex, list[i].addr, list[i].length);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	struct si_qp *qp = (struct si_qp *)ex;

	if (!qp->build_error)
		note_build_error(qp, take_list(qp, building(qp), sge, n));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	wr_set_sge_list(ex, 1, &(struct ibv_sge){.lkey = lkey, .addr = addr, .length = length});
}

void si_qp_add_builders(struct si_qp *qp)
{
	uint64_t wanted = qp->init.send_ops_flags;
	struct ibv_qp_ex *ex = &qp->ex;

	qp->has_builders = true;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (qp->qp.qp_type == IBV_QPT_UD)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (qp->qp.qp_type == IBV_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	if (wanted & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (wanted & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (wanted & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (wanted & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (wanted & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (wanted & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (wanted & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
}
