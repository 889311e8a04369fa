/* SPDX-License-Identifier: BSD-2-Clause */
/* make_plan.h: a trace's plan (analysis/plan/records.h) made, with progress and doubts printed. */
#ifndef REPLAY_HOST_GROUP_MAKE_PLAN_H
#define REPLAY_HOST_GROUP_MAKE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_make_plan_options {
	const char *dir;
	const char *list; /* the ranks, as in "0,2-5"; NULL: all */
	bool quiet;       /* prints only what is in doubt */
	bool json;        /* prints the counts as JSON */
};

/* Returns the exit status; 1: the orders in the trace contradict each other. */
int sr_make_plan(const struct sr_make_plan_options *o);

/* Makes a plan if the trace has none for these ranks.  quiet: as above.  False after a message. */
bool sr_ensure_plan(struct sr_trace *t, const char *dir, const int32_t *ranks, size_t n, bool quiet);

#endif
