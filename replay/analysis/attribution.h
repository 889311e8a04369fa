/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attribution.h: which rank produced the bytes that entered each other one, for `sreplay suggest`.
 *
 * From the report of a replay of all ranks, which has compared the bytes; without one from the
 * trace alone: messages have senders, and of memory that peers write or that is fetched the last
 * writer before the access is taken (written.h), else the CPU of the memory's owner.
 */
#ifndef REPLAY_ANALYSIS_ATTRIBUTION_H
#define REPLAY_ANALYSIS_ATTRIBUTION_H

#include <stdbool.h>

#include "replay/analysis/log/links.h"
#include "replay/analysis/process/events.h"
#include "replay/analysis/written.h"

/* Bytes of one origin that entered one rank. */
struct sr_origin {
	size_t to;
	size_t from;   /* a rank; n: outside the recorded ones; n + 1: nobody can be named */
	size_t memory; /* the rank whose memory they were fetched from; SR_NO_RANK: none */
	bool is_call;  /* they are of the call that was asked for (and counted as any other as well)
			*/
	uint64_t bytes;
};

struct sr_attribution {
	struct sr_trace *trace;
	struct sr_links links;
	size_t n; /* ranks */
	struct sr_origin *origins;
	size_t origins_n, room;
	size_t *slots, slots_n; /* hash table: place + 1 */
	bool is_replayed;       /* by the report of a replay */

	/* One call's values; asked for before: */
	bool has_call;
	size_t rank;
	uint32_t thread;
	uint64_t sn;
	/* ... and found: */
	uint64_t call_values;
	struct sr_rank_set slice; /* the ranks whose values had reached the producers by then */
};

/* 0, or -errno and a sentence.  To be freed in both cases. */
int sr_attribute(struct sr_attribution *a, struct sr_trace *t, struct sr_error *err);
void sr_attribution_free(struct sr_attribution *a);

/* What a rank, or its call that was asked for, got from another one (or n, or n + 1). */
uint64_t sr_attributed(const struct sr_attribution *a, size_t from, size_t to, bool is_call);

static inline bool sr_rank_set_has(const struct sr_rank_set *s, size_t rank)
{
	return rank < SR_SLICE_RANKS && s->bits[rank / 64] >> (rank % 64) & 1;
}

#endif
