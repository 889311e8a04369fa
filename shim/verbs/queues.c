/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queues.c: completion queues and shared receive queues.  The program gets every completion
 * under its own wr_id (see wq.c).
 */
#include <limits.h>

#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/ops.h"
#include "shim/verbs/picks.h"
#include "shim/verbs/polls.h"
#include "shim/verbs/single.h"

static struct sr_map srqs;

/* ----------------------------------------------------- completion queues */

/*
 * After an error, each of the shim's own requests completes too.  The completion queue needs
 * room for these, for queue pairs as deep as add_qp makes them.
 */
int sr_cq_depth(int cqe)
{
	return sr_clocks_is_member() && cqe > 0 && cqe < INT_MAX / SR_CLOCK_REQUESTS
		   ? cqe * SR_CLOCK_REQUESTS
		   : cqe;
}

uint64_t sr_invoke_create_cq(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t deeper[] = {a[0], (uint64_t)sr_cq_depth((int)a[1]), a[2], a[3], a[4]};
	struct ibv_cq *cq = (void *)sr_real(d, deeper);

	if (!cq && deeper[1] != a[1])
		cq = (void *)sr_real(d, a);
	if (cq)
		sr_cq_add(cq);
	return (uintptr_t)cq;
}

uint64_t sr_invoke_resize_cq(const struct sr_call_desc *d, uint64_t *a)
{
	uint64_t deeper[] = {a[0], (uint64_t)sr_cq_depth((int)a[1])};
	uint64_t result = sr_real(d, deeper);

	return (int)result != 0 && deeper[1] != a[1] ? sr_real(d, a) : result;
}

uint64_t sr_invoke_destroy_cq(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_cq *cq = (struct ibv_cq *)a[0];
	/* Before the real call: as soon as it returns, another thread may get the same address. */
	struct sr_cq *c = sr_cq_take(cq);
	struct sr_cq_ex *extended = sr_cq_ex_take(cq);
	void *ops = sr_ops_take(cq);
	uint64_t result = sr_real(d, a);

	if ((int)result == 0) {
		sr_cq_free(c);
		sr_free(extended);
		sr_free(ops);
		return result;
	}
	sr_cq_put_back(cq, c);
	sr_cq_ex_put_back(cq, extended);
	sr_ops_put_back(cq, ops);
	return result;
}

/*
 * Returns how many completions the program gets, or the provider's error.  *room: how many more
 * the program has room for.
 */
static inline __attribute__((always_inline)) int poll_queue(const struct sr_call_desc *d,
							    struct ibv_cq *cq, struct ibv_wc *wc,
							    int *room, struct sr_received *received)
{
	int kept = 0, n, left;

	sr_received_none(received);
	received->is_odd = received->lacks_queue = false;
	received->posted_at = 0;
	sr_poll_begins(received);
	/* Removed completions leave room: polls again for the program's completions behind them. */
	do {
		n = received->is_polled ? received->polled
					: (int)sr_real_operation(d, cq->context, cq, (uint64_t)*room, wc + kept);
		received->is_polled = false;
		left = n > 0 ? sr_wq_complete(wc + kept, n, received) : 0;
		kept += left;
		*room -= left;
	} while (left < n);
	sr_poll_ends(received);
	if (__builtin_expect(!sr_self.commutes.on, 1))
		sr_clocks_sample();
	if (__builtin_expect(sr_picks_on, 0) && kept)
		sr_picks_polled(cq, wc, kept, received);
	if (kept)
		sr_single_came(cq);
	return kept || n >= 0 ? kept : n;
}

/* If this poll empties the queue, no completions of queue pairs retired before it are left. */
static uint64_t __attribute__((noinline))
poll_after_retirement(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_cq *cq = (void *)a[0];
	struct sr_wq *retired = sr_cq_retired(cq);
	int room = sr_single_room(cq, (int)a[1]), n;

	n = poll_queue(d, cq, (void *)a[2], &room, (void *)a[3]);
	if (retired && n >= 0 && room > 0)
		sr_cq_drained(cq, retired);
	return (uint64_t)(int64_t)n;
}

uint64_t sr_invoke_poll_cq(const struct sr_call_desc *d, uint64_t *a)
{
	int room = sr_single_room((void *)a[0], (int)a[1]);

	if (__builtin_expect(sr_any_retired, 0))
		return poll_after_retirement(d, a);
	return (uint64_t)(int64_t)poll_queue(d, (void *)a[0], (void *)a[2], &room, (void *)a[3]);
}

/* ------------------------------------------------- shared receive queues */

struct sr_wq *sr_srq_find(struct ibv_srq *srq)
{
	return sr_map_get(&srqs, (uintptr_t)srq);
}

/* On failure the queue is treated as unknown: its requests keep the program's wr_ids. */
static void put(struct ibv_srq *srq, struct sr_wq *wq)
{
	void *old;

	sr_map_put(&srqs, (uintptr_t)srq, wq, &old);
}

static void add_srq(struct ibv_srq *srq, const struct ibv_srq_attr *attr)
{
	struct sr_wq *wq = sr_wq_create(srq->context, attr->max_sge, attr->max_wr, false);

	if (wq)
		put(srq, wq);
}

uint64_t sr_invoke_create_srq(const struct sr_call_desc *d, uint64_t *a)
{
	struct ibv_srq *srq = (void *)sr_real(d, a);

	if (srq)
		add_srq(srq, &((struct ibv_srq_init_attr *)a[1])->attr);
	return (uintptr_t)srq;
}

uint64_t sr_invoke_create_srq_ex(const struct sr_call_desc *d, uint64_t *a)
{
	const struct ibv_srq_init_attr_ex *attr = (void *)a[1];
	struct ibv_srq *srq = (void *)sr_real(d, a);

	if (!srq)
		return 0;
	add_srq(srq, &attr->attr);
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD && attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD)
		sr_clocks_add_srq(srq, attr->pd, attr->xrcd);
	return (uintptr_t)srq;
}

uint64_t sr_invoke_destroy_srq(const struct sr_call_desc *d, uint64_t *a)
{
	/* Before the real call: as soon as it returns, another thread may get the same address. */
	struct ibv_srq *srq = (struct ibv_srq *)a[0];
	struct sr_wq *wq = sr_map_take(&srqs, a[0]);
	struct sr_clock_srq *clock = sr_clocks_take_srq(srq);
	uint64_t result = sr_real(d, a);

	if ((int)result == 0) {
		sr_wq_retire(wq, NULL);
		sr_clocks_remove_srq(clock);
		return result;
	}
	if (wq)
		put(srq, wq);
	sr_clocks_put_back_srq(srq, clock);
	return result;
}
