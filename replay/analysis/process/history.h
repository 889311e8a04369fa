/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history.h: the past of a rank in bounded memory: what was at which number.
 *
 * The recent past, which nearly all questions are about, is complete.  Of older entries every
 * second one is dropped each time room is needed.  The answer is then an older entry: a weaker
 * order, never a wrong one.
 */
#ifndef REPLAY_ANALYSIS_PROCESS_HISTORY_H
#define REPLAY_ANALYSIS_PROCESS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sr_history;

/* Of `entries` (at least 4) with `bytes` each, a multiple of 8.  NULL: no memory. */
struct sr_history *sr_history_new(size_t bytes, size_t entries);
void sr_history_free(struct sr_history *h);

/*
 * Adds an entry for a number not below the last (or not far below: it is inserted), to be filled
 * in.
 */
void *sr_history_add(struct sr_history *h, uint64_t number);

/* The last entry at or below the number; NULL: none.  *exact: nothing in between was dropped. */
const void *sr_history_find(const struct sr_history *h, uint64_t number, bool *exact);

#endif
