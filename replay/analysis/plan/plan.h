/* SPDX-License-Identifier: BSD-2-Clause */
/* plan.h: reads a plan; records.h has the layouts. */
#ifndef REPLAY_ANALYSIS_PLAN_PLAN_H
#define REPLAY_ANALYSIS_PLAN_PLAN_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/plan/records.h"

struct sr_plan;

/*
 * Opens the plan of a trace.  0, or -errno and a sentence: -ENOENT: there is none; -ESTALE: it is
 * of another version, or the trace has changed; -EBADMSG: damaged.  In all three cases `sreplay
 * process` makes a new one.
 */
int sr_plan_open(struct sr_plan **plan, struct sr_trace *t, struct sr_error *err);
void sr_plan_close(struct sr_plan *p);

/* Its ranks, ascending. */
const int32_t *sr_plan_group(const struct sr_plan *p, size_t *n);
/* plan.json. */
const json_t *sr_plan_summary(const struct sr_plan *p);
/* What the headers of this plan's files must contain. */
uint64_t sr_plan_trace_identity(const struct sr_plan *p);

/*
 * The records of a kind for a thread (of SR_PLAN_FOUND: for a rank, with thread 0), ascending by
 * sn (found: in their order); none: *records NULL and *count 0.  Checked, mapped, valid until the
 * plan is closed.  0, or -errno and a sentence, as sr_plan_open.  For one thread at a time.
 */
int sr_plan_records(struct sr_plan *p, enum sr_plan_kind kind, int32_t rank, uint32_t thread,
		    const void **records, size_t *count, struct sr_error *err);

/* A hash of all streams of a trace's ranks, and one of those that it has adopted.  0, or -errno and a sentence. */
int sr_plan_identity(struct sr_trace *t, uint64_t *identity, struct sr_error *err);
int sr_plan_children_identity(struct sr_trace *t, uint64_t *identity, struct sr_error *err);

#endif
