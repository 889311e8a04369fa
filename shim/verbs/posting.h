/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * posting.h: what the three ways to post share: post_recv.c, post_send.c, builders.c.
 * Every request goes out under a wr_id of the shim's, the address of its sr_wqe (wq.c).
 */
#ifndef SHIM_VERBS_POSTING_H
#define SHIM_VERBS_POSTING_H

#include "shim/memory/heap.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

/*
 * A request, or its list, may lie on a page that is exposed because of other things on it.
 * Each word that is read there takes a fault.  So it is copied at once, and the provider is
 * given the copy.
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

/* The queue is deeper than the program knows. */
static inline bool sr_posting_is_full(const struct sr_qp *q)
{
	return q->clock && q->clock->has_room && q->posted - sr_wq_passed(q->sq) >= q->clock->limit;
}

#endif
