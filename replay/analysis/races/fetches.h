/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fetches.h: READs and atomics that fetch into memory which peers can write.
 *
 * The poll has no bytes of them in the trace: what they brought is what the program then finds in that memory.  So a
 * fetch waits, from its completion on, for the first access to its bytes.
 */
#ifndef REPLAY_ANALYSIS_RACES_FETCHES_H
#define REPLAY_ANALYSIS_RACES_FETCHES_H

#include "replay/analysis/races/collecting.h"

/* The request is over, and its bytes are not known. */
void sr_collect_await_fetch(struct sr_collect *c, size_t rank, uint64_t number);

/* Something else will come there. */
void sr_collect_overwrite_fetches(struct sr_collect *c, size_t rank, uint64_t begin, uint64_t end);

/* Are all of these bytes those of one such request? */
bool sr_collect_is_of_fetch(const struct sr_collect *c, size_t rank, uint64_t address, uint64_t length);

/* The rank's memory is known there now: takes the values of requests that have brought some of it.  0 or -ENOMEM. */
int sr_collect_found_fetches(struct sr_collect *c, size_t rank, uint64_t address, uint64_t length);

#endif
