/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process.h: one pass over all ranks of a trace at once, in an order in which they
 * can have happened: each call after those that it is known to come behind.
 *
 * It knows what happened before what (clocks, messages), which request a
 * completion is of, whose memory a request goes to, and where each value that
 * entered a process came from, as far as the traces tell; and tells it to who
 * writes a plan (process_plan.c), explains a value (explain.c) or draws a graph.
 *
 * Memory is bounded by what the recorded processes had under way and by constants
 * for each pair of ranks, not by the traces.  The same trace gives the same calls
 * of the hooks in the same order.
 */
#ifndef REPLAY_ANALYSIS_PROCESS_PROCESS_H
#define REPLAY_ANALYSIS_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/links.h"
#include "replay/analysis/process/events.h"

/*
 * group: for each rank, is it in the group?  Orders are told between its ranks.
 * 0, or -errno and a sentence; -ELOOP: the orders contradict each other.
 */
int sr_process(struct sr_trace *t, const struct sr_links *links, const bool *group,
	       const struct sr_process_hooks *hooks, struct sr_process_counts *counts,
	       struct sr_error *err);

#endif
