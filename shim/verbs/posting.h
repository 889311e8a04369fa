/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * posting.h: shared by the three ways to post: post_recv.c, post_send.c, builders.c.  The shim
 * posts every request with a wr_id of its own, the address of its sr_wqe (wq.c).
 */
#ifndef SHIM_VERBS_POSTING_H
#define SHIM_VERBS_POSTING_H

#include "logd/base/opcodes.h"
#include "shim/memory/heap.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/picks.h"
#include "shim/verbs/regions.h"

/*
 * A request or its list may lie on a partially registered page, where each word read costs a
 * fault.  So the shim copies it at once and gives the copy to the provider.
 */
static inline void sr_posting_read(void *to, const void *wr, size_t size)
{
	if (sr_regions_is_near(wr))
		sr_exposed_copy(wr, to, size);
	else
		__builtin_memcpy(to, wr, size);
}

static inline struct ibv_sge *sr_posting_list(struct sr_wqe *wqe, struct ibv_sge *list)
{
	return wqe && wqe->num_sge && sr_regions_is_near(list) ? wqe->sge : list;
}

static inline bool sr_posting_carries_clocks(const struct sr_qp *q)
{
	return q->clock && q->clock->carries;
}

static inline bool sr_posting_has_events(const struct sr_qp *q)
{
	return q->clock && (q->clock->carries || q->clock->to_oneself);
}

/* The request comes behind its clock, if it has one.  It may be refused: then one message too many is counted, which makes no order. */
static inline void sr_posting_counts(const struct sr_qp *q, struct sr_wqe *wqe, enum ibv_wr_opcode opcode)
{
	if (!sr_picks_on || !q->clock)
		return;
	if (sr_op(opcode) & SR_OP_RECEIVED)
		q->clock->messages++;
	if (wqe)
		wqe->posted_at = sr_clocks_now();
}

/* Is the queue full to the program?  The real queue is deeper. */
static inline bool sr_posting_is_full(const struct sr_qp *q)
{
	return q->clock && q->clock->has_room && q->posted - sr_wq_passed(q->sq) >= q->clock->limit;
}

#endif
