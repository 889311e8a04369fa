/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stored_reads.h: READs of what the CPU of the memory's owner stored, if a watched replay knows its stores.
 *
 * Such a READ may have fetched what was stored last, as far as its clocks know.  That store, and what is before it in
 * program order, comes before the READ; other stores do not.
 */
#ifndef REPLAY_ANALYSIS_RACES_STORED_READS_H
#define REPLAY_ANALYSIS_RACES_STORED_READS_H

#include "replay/analysis/races/collecting.h"

/* When all calls have been read: adds the orders of c->reads.  0 or -ENOMEM. */
int sr_collect_follow_stores(struct sr_collect *c);

#endif
