/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * knowledge.h: what each rank knows of how far the others have come: vector clocks
 * over the calls of all ranks, computed while log processing goes along them, and
 * the waits that a replay needs so that it is true there too.
 *
 * A rank's steps are its calls and what it finds out in them, numbered.  Between
 * ranks everything is said in terms of steps and of the position (thread, SN) of
 * the call that they are in.
 *
 * Two kinds of knowledge differ: what a rank knew, and what a replay enforces by
 * letting a call's return wait for the entry of another.  At that entry, what the
 * other finds out inside of the call is not there yet.  A wait is left out only if
 * it is enforced by others.
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

/* A rank enters a call; or, fault not 0, has this fault behind it. */
void sr_knowledge_enter(struct sr_knowledge *k, size_t rank, uint32_t thread, uint64_t sn,
			uint32_t fault);
/* Where it is. */
const struct sr_position *sr_knowledge_now(const struct sr_knowledge *k, size_t rank);
/* How far it knows the others to be, by rank. */
const struct sr_position *sr_knowledge_of(const struct sr_knowledge *k, size_t rank);

/* An event of the rank's clock, in this call, behind the orders that were found at it. */
void sr_knowledge_event(struct sr_knowledge *k, size_t rank, uint64_t event);
/* Has it come to this event, so that an order on it can be understood? */
bool sr_knowledge_has(const struct sr_knowledge *k, size_t rank, uint64_t event);
/* What `other` did up to `event` was before. */
void sr_knowledge_order(struct sr_knowledge *k, size_t rank, size_t other, uint64_t event,
			uint32_t flags);
/* What `other` did up to the entry of that call was before. */
void sr_knowledge_message(struct sr_knowledge *k, size_t rank, size_t other,
			  const struct sr_position *sent, uint32_t flags);

/* All of the call's are known: tells the orders that follow from no others.  0, or what the hook
 * returned. */
int sr_knowledge_settle(struct sr_knowledge *k, size_t rank);

uint64_t sr_knowledge_weakened(const struct sr_knowledge *k);

#endif
