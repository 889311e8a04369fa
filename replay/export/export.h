/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export.h: writes a timeline for other tools.
 *
 * Ranks and threads are tracks, calls are slices, messages and orders are flows, and the requests
 * that a rank has outstanding are a counter.  A unit of the causal axis is shown as a microsecond.
 */
#ifndef REPLAY_EXPORT_EXPORT_H
#define REPLAY_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "replay/analysis/timeline/names.h"

/* Each returns 0 or -ENOMEM; whether it could be written is for the caller to ask `out`. */

/* Perfetto's protobuf messages: ui.perfetto.dev, trace_processor. */
int sr_export_perfetto(const struct sr_names *names, FILE *out);
/* Chrome's JSON trace format: the same tools, chrome://tracing and many others. */
int sr_export_json(const struct sr_names *names, FILE *out);
/* Graphviz: the calls that arrows begin or end at. */
int sr_export_dot(const struct sr_names *names, FILE *out);

/* ---------------------------------------------------------------- shared by them */

#define SR_EXPORT_UNIT 1000 /* nanoseconds */

/* Is it shown as an arrow?  Requests are a counter, and a thread's start is not recorded as such.
 */
static inline bool sr_is_exported(const struct sr_flow *f)
{
	return f->kind == SR_FLOW_ORDER || f->kind == SR_FLOW_MESSAGE;
}

/*
 * The exported arrows, in the order of the slices that they begin (by_from) and end at (by_to).  An
 * arrow's number is its place in the timeline + 1.
 */
struct sr_arrows {
	const struct sr_flow **by_from, **by_to;
	size_t n, from, to; /* from, to: what a walk over all slices has taken */
};

int sr_arrows_sort(struct sr_arrows *a, const struct sr_timeline *t);
void sr_arrows_free(struct sr_arrows *a);
/* The next arrow that begins or ends at this slice, in a walk by track and slice; NULL: no more. */
const struct sr_flow *sr_arrows_from(struct sr_arrows *a, struct sr_place p);
/* Also its end: is it an arrow that precedes the slice? */
const struct sr_flow *sr_arrows_to(struct sr_arrows *a, struct sr_place p, bool is_before);

static inline uint64_t sr_arrow_number(const struct sr_timeline *t, const struct sr_flow *f)
{
	return (uint64_t)(f - t->flows) + 1;
}

#endif
