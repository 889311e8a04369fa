/* SPDX-License-Identifier: BSD-2-Clause */
/* requests.h: the requests of a trace, as accesses to the memory of both ends. */
#ifndef REPLAY_ANALYSIS_RACES_REQUESTS_H
#define REPLAY_ANALYSIS_RACES_REQUESTS_H

#include "replay/analysis/races/collecting.h"

/* A rank's queue pair or shared receive queue, and its number.  NULL: no memory. */
struct sr_collected_queue *sr_collect_queue(struct sr_collect *c, size_t rank, uint64_t address, bool is_ordered, uint32_t *number);

/* Hooks of sr_process(). */
int sr_collect_posted(void *argument, const struct sr_posted *p);
int sr_collect_completed(void *argument, const struct sr_completed *d);

/* When all calls have been read: when each request was over, and which READs poll. */
void sr_collect_end_requests(struct sr_collect *c);

#endif
