/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * producers.h: who wrote the bytes that entered a rank from memory, its own or
 * another's; on the command's side, when all ranks of the group have ended.
 *
 * Which writes there were, and which came before a look or after it, is then the
 * same in each replay: it depends on the trace, not on how fast the ranks were.
 */
#ifndef REPLAY_HOST_PRODUCERS_PRODUCERS_H
#define REPLAY_HOST_PRODUCERS_PRODUCERS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/host/producers/outsiders.h"
#include "replay/abi/group.h"
#include "replay/analysis/plan/plan.h"

struct sr_producers;

/*
 * For the looks of this member, in the memory of the group's that is mapped at g.
 * has_clocks: the waits of the plan are all that there was between the ranks.
 * outsiders: NULL if nothing is known of them.
 * NULL: no memory.
 */
struct sr_producers *sr_producers_new(struct sr_group *g, int fd, uint32_t self,
				      struct sr_trace *t, struct sr_plan *plan, bool has_clocks,
				      const struct sr_outsiders *outsiders);
void sr_producers_free(struct sr_producers *p);

/* In the order of the looks: what is found of one, piece by piece.  What `add` returns, if not 0.
 */
int sr_producers_settle(struct sr_producers *p, const struct sr_found_value *pending,
			int (*add)(void *argument, const struct sr_found_value *found),
			void *argument);

/* n bytes of what was looked at, from where the process has them at addr. */
void sr_producers_bytes(const struct sr_producers *p, const struct sr_found_value *pending,
			uint64_t addr, uint8_t *bytes, uint32_t n);

#endif
