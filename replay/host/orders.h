/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * orders.h: what the plan says of a thread's calls, put into its stream in front of
 * them: whom they wait for, and who is at the other end of a queue pair from there
 * on.  On the command's side.
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
	size_t n_waits, n_peers;
	size_t next_wait, next_peer;
};

/* Of a thread, from the plan's beginning; valid as long as the plan.  -errno and a sentence. */
int sr_orders_open(struct sr_orders *o, struct sr_plan *p, const struct sr_group *g, int32_t rank,
		   uint32_t thread, struct sr_error *err);

/*
 * Hands what stands in front of the calls up to this SN, and of the faults up to
 * this one behind it, to `send`, which takes a
 * record; stops when that returns something else than 0, and returns that.
 */
int sr_orders_before(struct sr_orders *o, uint64_t sn, uint32_t fault,
		     int (*send)(void *argument, uint16_t kind, const void *payload, size_t size),
		     void *argument);

#endif
