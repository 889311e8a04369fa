/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * history.h: the past of a rank, in bounded memory: what was at which number.
 *
 * Others ask for the recent past nearly always, so that is kept whole; of what is
 * older every second entry is dropped each time room is needed.  An answer is the
 * entry asked for or, where that is gone, an older one: of an order that means a
 * weaker one, never a wrong one.
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
 * The entry for a number that is not below the last one's (or not far: it is put
 * in its place), to be filled in.
 */
void *sr_history_add(struct sr_history *h, uint64_t number);

/* The last one at or below; NULL if there is none.  *exact: nothing in between was dropped. */
const void *sr_history_find(const struct sr_history *h, uint64_t number, bool *exact);

#endif
