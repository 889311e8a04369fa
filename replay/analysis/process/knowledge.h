/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * knowledge.h: what each rank knows about how far the others have come, as vector clocks over the
 * calls of all ranks; and the waits that a replay needs so that it is true there too.
 *
 * A rank's steps are its calls and what it finds out in them, numbered.  Between ranks everything
 * is expressed in steps and in the position (thread, SN) of their call.
 *
 * What a rank knew and what a replay enforces differ.  A replay lets the return of a call wait for
 * the entry of another; at that entry, what the other finds out inside the call is not there yet.
 * A wait is left out only if other waits enforce it.
 */
#ifndef REPLAY_ANALYSIS_PROCESS_KNOWLEDGE_H
#define REPLAY_ANALYSIS_PROCESS_KNOWLEDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/analysis/process/events.h"

struct sr_knowledge;

/* NULL: no memory.  order: as in sr_process_hooks. */
struct sr_knowledge *sr_knowledge_new(size_t ranks, const bool *group,
				      int (*order)(void *argument, const struct sr_found_order *o),
				      void *argument);
void sr_knowledge_free(struct sr_knowledge *k);

/* The rank enters a call, or is where `at` says (its steps are not taken from there). */
void sr_knowledge_enter(struct sr_knowledge *k, size_t rank, const struct sr_position *at);
/* The rank's position. */
const struct sr_position *sr_knowledge_now(const struct sr_knowledge *k, size_t rank);
/* By rank, how far it knows the others to be. */
const struct sr_position *sr_knowledge_of(const struct sr_knowledge *k, size_t rank);

/* An event of the rank's clock in this call, after the orders that were found at it. */
void sr_knowledge_event(struct sr_knowledge *k, size_t rank, uint64_t event);
/* Has the rank reached this event, so that an order on it can be resolved? */
bool sr_knowledge_has(const struct sr_knowledge *k, size_t rank, uint64_t event);
/* What `other` did up to `event` was before. */
void sr_knowledge_order(struct sr_knowledge *k, size_t rank, size_t other, uint64_t event,
			uint32_t flags);
/* What `other` did up to the entry of that call was before. */
void sr_knowledge_message(struct sr_knowledge *k, size_t rank, size_t other,
			  const struct sr_position *sent, uint32_t flags);

/*
 * All orders of the call are known: calls the hook for those that follow from no others. 0, or
 * what the hook returned.
 */
int sr_knowledge_flush(struct sr_knowledge *k, size_t rank);

uint64_t sr_knowledge_weakened(const struct sr_knowledge *k);

#endif
