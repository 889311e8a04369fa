/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * draft.h: a plan while it is made, in a directory beside the plan whose place it takes.
 *
 * Records that come in order are added; what one rank finds out about another's calls
 * comes out of order, and is deferred to a ledger until all of it is there.
 */
#ifndef REPLAY_ANALYSIS_PLAN_DRAFT_H
#define REPLAY_ANALYSIS_PLAN_DRAFT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/links.h"
#include "replay/analysis/plan/records.h"

#define SR_DRAFT_BYTES 64 /* of the longest record */

struct sr_draft;

/* links: for the ranks' numbers; need not be filled yet.  NULL and a sentence. */
struct sr_draft *sr_draft_new(const char *trace, const struct sr_links *links, size_t ranks,
			      struct sr_error *err);
void sr_draft_free(struct sr_draft *d); /* and its directory, unless published */

/* The rest return 0 or -errno. */

/* Appends to the rank's file of that kind and thread. */
int sr_draft_add(struct sr_draft *d, enum sr_plan_kind kind, size_t rank, uint32_t thread,
		 const void *record);

/* Keeps a record of rank's that `by` found, for sr_draft_merge: lowest key first. */
int sr_draft_defer(struct sr_draft *d, enum sr_plan_kind kind, size_t rank, size_t by,
		   uint32_t thread, uint64_t key, const void *record);
int sr_draft_merge(struct sr_draft *d);
/* Records that came so late that they are missing. */
uint64_t sr_draft_dropped(const struct sr_draft *d);

/* Writes plan.json, finishes all files and puts the draft in the place of the trace's plan. */
int sr_draft_publish(struct sr_draft *d, const json_t *summary, uint64_t identity, uint64_t group);

#endif
