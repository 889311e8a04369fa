/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * orders.h: the plan's records for a thread, to be inserted into its stream before its calls: the
 * calls of other ranks that they wait for, the other ends of queue pairs, and whose completions are.
 */
#ifndef REPLAY_HOST_ORDERS_H
#define REPLAY_HOST_ORDERS_H

#include <stddef.h>
#include <stdint.h>

#include "replay/abi/group.h"
#include "replay/analysis/plan/plan.h"

struct sr_orders {
	const struct sr_group *group;
	const struct sr_plan_wait *waits;
	const struct sr_plan_peer *peers;
	const struct sr_plan_pick *picks;
	size_t n_waits, n_peers, n_picks;
	size_t next_wait, next_peer, next_pick;
};

/* From the beginning of the thread; valid as long as the plan.  -errno and a sentence. */
int sr_orders_open(struct sr_orders *o, struct sr_plan *p, const struct sr_group *g, int32_t rank,
		   uint32_t thread, struct sr_error *err);

/*
 * Passes to `send` all records for calls up to this SN, and for faults up to this one after it.
 * Stops at the first result of `send` that is not 0, and returns it.
 */
int sr_orders_before(struct sr_orders *o, uint64_t sn, uint32_t fault,
		     int (*send)(void *argument, uint16_t kind, const void *payload, size_t size),
		     void *argument);

/* The SN of the first call that has to come behind a record which has not been passed; UINT64_MAX: none has to. */
uint64_t sr_orders_next(const struct sr_orders *o);

#endif
