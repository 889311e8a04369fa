/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c: the operations that post requests. */
#include <errno.h>
#include <string.h>

#include "local.h"

/* ------------------------------------------------------------------ sends */

bool sd_sq_is_full(const struct sd_local_qp *local)
{
	const struct sd_qp *qp = local->shared;

	return qp->sq_tail + local->built - qp->sq_freed == qp->cap.max_send_wr;
}

/* A queue pair without a peer takes requests in any state. */
bool sd_takes_sends(const struct sd_qp *qp)
{
	if (!qp->connected && !sd_has_driver)
		return true;
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQD;
}

int sd_append_inline(const struct sd_qp *qp, struct sd_send *s, const void *p, size_t length)
{
	if (length > qp->cap.max_inline_data - s->inline_length)
		return EINVAL;
	memcpy(s->inline_data + s->inline_length, p, length);
	s->flags |= IBV_SEND_INLINE; /* builders need not say so */
	s->inline_length += (uint32_t)length;
	return 0;
}

int sd_take_list(const struct sd_qp *qp, struct sd_send *s, const struct ibv_sge *sge, size_t n)
{
	int err = 0;

	if (n > qp->cap.max_send_sge)
		return EINVAL;
	if (s->flags & IBV_SEND_INLINE) {
		for (size_t i = 0; i < n && !err; i++)
			err =
			    sd_append_inline(qp, s, (void *)(uintptr_t)sge[i].addr, sge[i].length);
		return err;
	}
	memcpy(s->sge, sge, n * sizeof(*sge));
	s->num_sge = (uint32_t)n;
	return 0;
}

static void copy_operation(struct sd_send *s, const struct ibv_send_wr *wr, uint8_t type)
{
	switch (wr->opcode) {
	case SD_WR_ATOMIC_WRITE:
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
	case IBV_WR_BIND_MW:
		s->bind_new = 0;
		if (wr->bind_mw.mw->rkey >> 8 == wr->bind_mw.rkey >> 8)
			sd_copy_bind(s, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	default:
		break;
	}
	if (type == IBV_QPT_UD) {
		const struct sd_ah *ah = (struct sd_ah *)wr->wr.ud.ah;

		s->remote_qpn = wr->wr.ud.remote_qpn;
		s->remote_qkey = wr->wr.ud.remote_qkey;
		sd_address(s, ah);
	} else if (type == IBV_QPT_XRC_SEND) {
		s->remote_srqn = wr->qp_type.xrc.remote_srqn;
	}
}

static bool may_do(uint8_t type, enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return true;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
	case IBV_WR_SEND_WITH_INV:
		return type != IBV_QPT_UD;
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case SD_WR_ATOMIC_WRITE:
		return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
	default:
		return false;
	}
}

static uint64_t bytes_of(const struct sd_send *s)
{
	uint64_t bytes = s->flags & IBV_SEND_INLINE ? s->inline_length : 0;

	for (uint32_t i = 0; i < s->num_sge; i++)
		bytes += s->sge[i].length;
	return bytes;
}

void sd_append(struct sd_qp *qp, uint64_t now)
{
	struct sd_send *s = sd_send(qp, qp->sq_tail++);

	if (!qp->connected)
		sd_complete_unsent(qp, s, IBV_WC_SUCCESS);
	else if (qp->state == IBV_QPS_ERR)
		sd_complete_unsent(qp, s, IBV_WC_WR_FLUSH_ERR);
	else
		sd_posted(qp, s, bytes_of(s), now);
}

static int post_one(struct sd_local_qp *local, const struct ibv_send_wr *wr, uint64_t now)
{
	struct sd_qp *qp = local->shared;
	struct sd_send *s;
	int err;

	if (sd_sq_is_full(local))
		return ENOMEM;
	if (sd_fails(qp->name, ++qp->asked, 50))
		return EIO;
	if (!sd_takes_sends(qp) || !may_do(qp->type, wr->opcode))
		return EINVAL;
	if (wr->num_sge > (int)qp->cap.max_send_sge)
		return EINVAL;
	s = sd_send(qp, qp->sq_tail);
	s->wr_id = wr->wr_id;
	s->opcode = wr->opcode;
	s->flags = wr->send_flags;
	s->num_sge = s->inline_length = 0;
	if (qp->connected) {
		s->imm_data = wr->imm_data;
		copy_operation(s, wr, qp->type);
		err = sd_take_list(qp, s, wr->sg_list, wr->num_sge > 0 ? (size_t)wr->num_sge : 0);
		if (err)
			return err;
	}
	sd_append(qp, now);
	return 0;
}

int sd_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct sd_local_qp *local = (struct sd_local_qp *)qp;
	uint64_t now = sd_now();
	int err = 0;

	sd_posting_begins(local);
	sd_lock();
	for (; wr; wr = wr->next) {
		err = post_one(local, wr, now);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	if (local->shared->connected)
		sd_progress(now);
	sd_unlock();
	sd_posting_ends(local);
	return err;
}

/* --------------------------------------------------------------- receives */

static int post_recvs(struct sd_rq *rq, uint64_t name, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		struct sd_recv *r;
		bool full = rq->tail - rq->freed == rq->size;

		if (full || wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge) {
			*bad_wr = wr;
			return full ? ENOMEM : EINVAL;
		}
		if (sd_fails(name, ++rq->asked << 32, 50)) {
			*bad_wr = wr;
			return EIO;
		}
		r = sd_recv(rq, rq->tail);
		r->wr_id = wr->wr_id;
		r->num_sge = (uint32_t)wr->num_sge;
		if (wr->num_sge)
			memcpy(r->sge, wr->sg_list, r->num_sge * sizeof(r->sge[0]));
		rq->tail++;
	}
	return 0;
}

/* A sender that waits for a receive looks again when its time has come, or at once on a device
 * without times. */
int sd_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct sd_qp *q = ((struct sd_local_qp *)qp)->shared;
	int err = EINVAL;

	sd_lock();
	if (q->srq || q->state == IBV_QPS_RESET)
		*bad_wr = wr;
	else
		err = post_recvs(&q->rq, q->name, wr, bad_wr);
	if (q->state == IBV_QPS_ERR)
		sd_qp_fail(q); /* flushes them */
	if (sd_fabric->active && !sd_fabric->latency)
		sd_progress(0);
	sd_unlock();
	return err;
}

int sd_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct sd_srq *s = ((struct sd_local_srq *)srq)->shared;
	int err;

	sd_lock();
	err = post_recvs(&s->rq, s->name, wr, bad_wr);
	if (sd_fabric->active && !sd_fabric->latency)
		sd_progress(0);
	sd_unlock();
	return err;
}
