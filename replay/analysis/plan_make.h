/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_make.h: a trace's plan, made: what `sreplay process` does, and `sreplay replay` when it
 * needs to. */
#ifndef REPLAY_ANALYSIS_PLAN_MAKE_H
#define REPLAY_ANALYSIS_PLAN_MAKE_H

#include "replay/analysis/plan/plan.h"
#include "replay/analysis/process/process.h"

/*
 * For these ranks (ascending; n 0: all of the trace), into DIR.srec/plan, in place
 * of the one that is there.  progress (NULL: nobody wants to know) is told how much
 * is done, of 1.  0, or -errno and a sentence; then there is no plan.
 */
int sr_plan_make(struct sr_trace *t, const int32_t *group, size_t n, void (*progress)(double done),
		 struct sr_process_counts *counts, struct sr_error *err);

#endif
