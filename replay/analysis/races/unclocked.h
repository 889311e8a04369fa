/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unclocked.h: values of which no clock says who left them.
 *
 * A forked child may have no clock (sr_clocks_start_in_child()).  A value that it read, or that somebody read in its memory, may come from a request that
 * log processing has not come to yet; so may a value that others read where it writes.  All of them are borders: what comes
 * behind one of them may have been ordered by it.
 */
#ifndef REPLAY_ANALYSIS_RACES_UNCLOCKED_H
#define REPLAY_ANALYSIS_RACES_UNCLOCKED_H

#include "replay/analysis/races/collecting.h"

/* Does its clock say what this rank knows of others? */
bool sr_collect_has_clock(const struct sr_collect *c, size_t rank);

/* A rank has read these bytes in the owner's memory.  by: the request that fetched them; 0: a load.  0 or -ENOMEM. */
int sr_collect_unclocked_read(struct sr_collect *c, size_t rank, uint32_t moment, size_t owner, uint64_t begin, uint64_t end, uint64_t by);

/* All requests are known.  0 or -ENOMEM. */
int sr_collect_end_unclocked(struct sr_collect *c);

#endif
