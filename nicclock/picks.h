/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * picks.h: which completions' queues a trace has to tell (Netzer and Miller's test), and how a reader finds the others.
 *
 * A completion queue takes completions of many send and receive queues ("queues" here).  Each queue's own come in their
 * order; whose comes next is the pick.  docs/internals/picks.md is the design; in short:
 *
 *   recorder  A pick is traced if it races with the one before it: if that was another queue's, and whoever posted
 *             this completion's request or message did not know that it had been handed out.  What that member
 *             knew stands behind its clock (struct sr_clock_pair).
 *   trace     A traced completion says its queue.  For the others, entries say how many of each queue come between
 *             two traced ones of it.
 *   reader    Goes through all members' traces in an order that keeps their clocks' orders.  At a pick that is not
 *             traced, exactly one queue will have a completion that may come there: it waits for it.
 *
 * A pure library, as clock.h.
 */
#ifndef NICCLOCK_PICKS_H
#define NICCLOCK_PICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nicclock/clock.h"

/* ------------------------------------------------ what a member knew of another one */

/*
 * The word behind a clock: the highest event of the target that the member knew, and how many messages it had posted on
 * this queue pair before the clock, of which 24 bits are enough: no queue is so long.
 */
static inline uint64_t sr_known_word(uint64_t event, uint64_t messages)
{
	return messages << SR_CLOCK_EVENT_BITS | (event & SR_CLOCK_EVENT_MASK);
}

/*
 * What the member knew for certain when it posted its message number `message` (from 0) of the queue pair that the cell
 * is of: what a clock says that it posted before.  0: the cell has only later ones, or none.
 */
uint64_t sr_known_before(const struct sr_clock_pair cell[SR_CLOCK_CELL_WORDS], int member, uint64_t message);

/* -------------------------------------------------------------------- recording */

/* Of a completion queue: its last completion's queue, and the process's last event when that was handed out. */
struct sr_picks {
	bool any;
	uint64_t queue, event;
};

/* Of a queue: completions since the last entry. */
struct sr_pick_counts {
	uint32_t traced, untraced; /* in this order: no traced one comes behind one that is not */
};

/* known: the highest event of this process that was known when the completion's request or message was posted. */
bool sr_pick_races(const struct sr_picks *p, uint64_t queue, uint64_t known);

/* The completion was handed out; the process's last event is `event`. */
void sr_pick_was(struct sr_picks *p, uint64_t queue, uint64_t event);

/*
 * Counts a completion.  True: first an entry has to be written with what *entry gets.  The same for the end of an
 * interval, with sr_pick_entry().
 */
bool sr_pick_count(struct sr_pick_counts *c, bool is_traced, struct sr_pick_counts *entry);
bool sr_pick_entry(struct sr_pick_counts *c, struct sr_pick_counts *entry);

/* --------------------------------------------------------------------- reading */

/* The entries of one queue, in their order, and how far its completions have come. */
struct sr_pick_script {
	struct sr_pick_counts *entries; /* the caller's */
	size_t n, at;
	struct sr_pick_counts taken; /* of the entry at hand */
};

/* May the queue's next completion be one whose pick is not traced? */
bool sr_pick_may_come(const struct sr_pick_script *s);

/* The queue's next completion was taken.  False: it cannot come here. */
bool sr_pick_take(struct sr_pick_script *s, bool is_traced);

#endif
