/* SPDX-License-Identifier: BSD-2-Clause */
/* post_recv.c: receives, on queue pairs and on shared receive queues; see posting.h. */
#include "shim/core/hooks.h"
#include "shim/verbs/buffers.h"
#include "shim/verbs/posting.h"

/*
 * Copies the requests for the provider and gives the copies the shim's wr_ids.  The program's
 * requests must not be changed: they may be constant, or two threads may use them at once.  The
 * whole chain becomes one post, as in the program.  The exception is a chain longer than the
 * whole queue, which the provider will refuse somewhere; its remainder is *rest.
 */
static int copy_recvs(struct sr_wq *wq, struct ibv_recv_wr **rest, struct ibv_recv_wr *copies,
		      uint32_t room, bool datagrams)
{
	struct ibv_recv_wr *wr = *rest;
	uint32_t n = 0;

	while (wr && n < room) {
		struct ibv_recv_wr *copy = &copies[n++];
		struct sr_wqe *wqe;

		sr_posting_read(copy, wr, sizeof(*copy));
		wqe = sr_wqe_take(wq, copy->wr_id, SR_WQE_RECV, copy->sg_list,
				  (uint32_t)copy->num_sge);
		wr = copy->next;
		copy->next = copy + 1;
		copy->sg_list = sr_posting_list(wqe, copy->sg_list);
		if (wqe)
			copy->wr_id = (uintptr_t)wqe;
		if (wqe && __builtin_expect(sr_leaves_out, 0))
			sr_buffers_post(wqe);
		if (wqe && datagrams)
			sr_wqe_note_target(wqe);
		else if (wqe)
			sr_wqe_note_receive(wqe);
	}
	copies[n - 1].next = NULL;
	*rest = wr;
	return (int)n;
}

/*
 * Takes back the requests from the refused one on, or all of them if the provider did not say
 * which one it refused.
 */
static int take_back_recvs(struct ibv_recv_wr *copies, int n, const struct ibv_recv_wr *bad)
{
	int refused = bad >= copies && bad < copies + n ? (int)(bad - copies) : 0;

	for (int i = refused; i < n; i++) {
		struct sr_wqe *wqe = sr_wqe_of(copies[i].wr_id);

		if (!wqe)
			continue;
		if (sr_leaves_out)
			sr_buffers_complete(wqe);
		sr_wqe_give_back(wqe);
	}
	return refused;
}

static int post_recv_chain(struct sr_wq *wq, const struct sr_call_desc *d,
			   struct ibv_context *context, void *object, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad_wr, bool datagrams)
{
	uint32_t room;
	struct ibv_recv_wr *copies = sr_wq_begin_posts(wq, &room), *rest = wr, *bad = NULL;
	int err, n, posted;

	do {
		n = copy_recvs(wq, &rest, copies, room, datagrams);
		err = (int)sr_real_operation(d, context, object, (uintptr_t)copies, &bad);
		if (!err) {
			wr = rest;
			continue;
		}
		posted = take_back_recvs(copies, n, bad);
		while (posted--)
			wr = wr->next;
	} while (wr && !err);
	sr_wq_unlock_posts(wq);
	if (err)
		*bad_wr = wr;
	return err;
}

uint64_t sr_invoke_post_recv(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_qp *qp = (void *)a[0];
	struct sr_qp *q = sr_qp_find(qp);

	if (!q || !q->rq || !a[1])
		return sr_real(d, a);
	return (uint64_t)post_recv_chain(q->rq, d, qp->context, qp, (void *)a[1], (void *)a[2],
					 qp->qp_type == IBV_QPT_UD);
}

uint64_t sr_invoke_post_srq_recv(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_srq *srq = (void *)a[0];
	struct sr_wq *wq = sr_srq_find(srq);

	if (!wq || !a[1])
		return sr_real(d, a);
	return (uint64_t)post_recv_chain(wq, d, srq->context, srq, (void *)a[1], (void *)a[2], false);
}
