/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process.h: one pass over all ranks of a trace at once, in an order in which they can have
 * happened: each call after those that it is known to follow.
 *
 * It knows what happened before what (clocks, messages), which request a completion is of, whose
 * memory a request goes to, and, as far as the traces tell, where each value that entered a
 * process came from.  Its hooks write a plan (plan_make.c), explain a value (explain.c) or count
 * requests (outsiders.c).
 *
 * Memory is bounded by what the recorded processes had in flight and by constants for each pair of
 * ranks, not by the length of the traces.  The same trace gives the same calls of the hooks in the
 * same order.
 */
#ifndef REPLAY_ANALYSIS_PROCESS_PROCESS_H
#define REPLAY_ANALYSIS_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/links.h"
#include "replay/analysis/process/events.h"

/*
 * group: for each rank, is it in the group?  Orders are reported between its ranks. 0, or -errno
 * and a sentence; -ELOOP: the orders contradict each other.
 */
int sr_process(struct sr_trace *t, const struct sr_links *links, const bool *group,
	       const struct sr_process_hooks *hooks, struct sr_process_counts *counts,
	       struct sr_error *err);

#endif
