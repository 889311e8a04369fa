/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_make.h: makes a trace's plan, for `sreplay process` and `sreplay replay`. */
#ifndef REPLAY_ANALYSIS_PLAN_MAKE_H
#define REPLAY_ANALYSIS_PLAN_MAKE_H

#include "replay/analysis/plan/plan.h"
#include "replay/analysis/process/process.h"

/*
 * For these ranks (ascending; n 0: all), into DIR.srec/plan, replacing what is there. progress:
 * NULL, or called with the share that is done, up to 1.  0, or -errno and a sentence; then there
 * is no new plan.
 */
int sr_plan_make(struct sr_trace *t, const int32_t *group, size_t n, void (*progress)(double done),
		 struct sr_process_counts *counts, struct sr_error *err);

#endif
