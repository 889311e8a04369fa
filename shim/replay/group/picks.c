/* SPDX-License-Identifier: BSD-2-Clause */
/* picks.c: puts into completions what their record does not say (nicclock/picks.h); see group.h. */
#include "shim/replay/group/requests.h"

#include "logd/base/opcodes.h"
#include "shim/replay/group/group.h"

static bool fill_sent(const struct sr_request_qp *q, struct ibv_wc *wc, int n)
{
	const struct sr_send_request *r = NULL;

	for (int i = 0; i < n; i++) {
		r = sr_send_queue_next_signaled(&q->sends, r);
		if (!r)
			return false;
		wc[i].wr_id = r->wr_id;
		wc[i].qp_num = q->qp->qp_num;
	}
	return true;
}

/* Did it bring bytes into the receive's memory?  Each such message is one piece. */
static bool has_piece(const struct ibv_wc *wc)
{
	return wc->byte_len && wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM;
}

static bool fill_piece(struct sr_received *received, uint32_t at, const struct sr_request *r)
{
	struct sr_received_piece *p = &received->pieces[at];

	if (at >= received->count || !p->left_out || !r->num_sge || p->length > r->sge[0].length)
		return false;
	p->addr = (void *)(uintptr_t)r->sge[0].addr;
	return true;
}

static bool fill_received(struct sr_thread *t, const struct sr_request_qp *q, struct ibv_wc *wc, int n)
{
	const struct sr_recv_request *r = q->receives.first;
	uint32_t pieces = 0;

	for (int i = 0; i < n; i++, r = r->next) {
		if (!r || (has_piece(&wc[i]) && !fill_piece(&t->received, pieces++, (const struct sr_request *)r)))
			return false;
		wc[i].wr_id = r->wr_id;
		wc[i].qp_num = q->qp->qp_num;
	}
	return pieces == t->received.count;
}

bool sr_group_fill_pick(struct sr_thread *t, const struct sr_replay_pick *pick, struct ibv_context *context, struct ibv_wc *wc, int n)
{
	const struct sr_request_qp *q;
	bool filled;

	if (!sr_group_on)
		return false;
	sr_lock(&sr_group_lock);
	q = sr_request_qp_numbered(context, pick->qp_num);
	if (!q)
		filled = false;
	else
		filled = pick->receives ? fill_received(t, q, wc, n) : fill_sent(q, wc, n);
	sr_unlock(&sr_group_lock);
	return filled;
}
