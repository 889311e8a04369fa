/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * suggest.h: the smallest group of ranks that explains a share of the bytes that entered: their
 * producers are members, and so are the owners of the memory that they were fetched from.
 *
 * All groups of up to SR_SUGGEST_EXACT ranks are tried.  Of more ranks the one is added, again and
 * again, that most of the missing bytes need.
 */
#ifndef REPLAY_ANALYSIS_SUGGEST_H
#define REPLAY_ANALYSIS_SUGGEST_H

#include "replay/analysis/attribution.h"
#include "replay/analysis/process/events.h"

#define SR_SUGGEST_EXACT 16

struct sr_suggestion {
	bool *members;    /* by rank index */
	size_t n;         /* of them; 0: no group of the recorded ranks does */
	uint64_t inside;  /* bytes that members produced ... */
	uint64_t entered; /* ... of those that entered and can be attributed */
};

/* Of which bytes. */
enum sr_suggest_what {
	SR_SUGGEST_RANK,  /* that entered `rank` */
	SR_SUGGEST_CALL,  /* that entered at the call that was asked for */
	SR_SUGGEST_GROUP, /* that entered any member */
};

/*
 * rank: a member; SR_NO_RANK (with SR_SUGGEST_GROUP): any.  s->members has a->n elements.  0 or
 * -ENOMEM.
 */
int sr_suggest(const struct sr_attribution *a, enum sr_suggest_what what, size_t rank, double share,
	       struct sr_suggestion *s);

#endif
