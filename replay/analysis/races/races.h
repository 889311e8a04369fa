/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * races.h: the races of a trace, for `sreplay races`: accesses by RDMA and by CPUs to the same memory that
 * nothing orders in every run.
 *
 * There is one of them for each pair of stacks, or call sites where the stacks are not known, and class.
 */
#ifndef REPLAY_ANALYSIS_RACES_RACES_H
#define REPLAY_ANALYSIS_RACES_RACES_H

#include "replay/analysis/races/collect.h"
#include "replay/analysis/races/consistency.h"
#include "replay/analysis/races/doubts.h"
#include "replay/analysis/races/stacks.h"

enum sr_race_evidence {
	SR_RACE_POSSIBLE,  /* something that the trace does not tell may order them */
	SR_RACE_PREDICTED, /* they can come in the other order */
	SR_RACE_OBSERVED,  /* ... and no clock ordered them in this run */
	SR_RACE_CONFIRMED, /* ... and they came in both, in other runs: by sreplay confirm, never by the analysis */
};

enum sr_race_class {
	SR_RACE_DATA,
	SR_RACE_SAME_VALUE, /* both write the same bytes */
	SR_RACE_IN_FLIGHT,  /* a request's own buffer */
	SR_RACE_LIFETIME,
	SR_RACE_FENCE, /* two requests of one queue pair */
	SR_RACE_SYNC,  /* a flag */
	SR_RACE_MESSAGE, /* two messages, to one shared receive queue */
};

enum sr_race_severity { SR_RACE_NOTE, SR_RACE_WARNING, SR_RACE_ERROR };

struct sr_race {
	struct sr_access a, b; /* one pair of them, with the most evidence */
	uint64_t begin, end;   /* memory that both access */
	uint64_t count;        /* pairs */
	enum sr_race_evidence evidence;
	enum sr_race_class class;
	enum sr_race_severity severity;
	uint16_t doubts; /* SR_DOUBT_*: why it is only possible */
	uint64_t stack_a, stack_b; /* stacks.h; 0: not known */
	struct sr_race_entry entry; /* with SR_DOUBT_OUTSIDE */
	struct sr_race_bounds bounds;
	bool has_bounds; /* false: they were not looked for */
	/* Not NULL: it is one if this load finds what that WRITE left, and the program then does the access all the same: sr_watches_try(). */
	const struct sr_race_skip *skip;
	const struct sr_race_skipped *skipped;
	int64_t lead;
};

struct sr_races {
	/* To be filled in: */
	struct sr_race_collecting how;
	const struct sr_race_stacks *stacks; /* NULL: none are known */

	struct sr_race *races; /* the most severe first */
	size_t n;
	uint64_t accesses, moments, orders, pairs, dropped;
	struct sr_consistency consistency; /* with how.consistency */
	uint64_t not_asked; /* of SR_PREDICT_LOCKSET: ordered pairs that were too many to be looked at */
	struct sr_race_run run;
};

/* 0, or -errno and a sentence.  To be freed in both cases. */
int sr_races_find(struct sr_races *r, struct sr_error *err);
void sr_races_free(struct sr_races *r);

enum sr_race_class sr_race_class_of(const struct sr_races *r, const struct sr_access *a, const struct sr_access *b);

/* Its stack, in r->stacks; 0: not known. */
uint64_t sr_race_stack_of(const struct sr_races *r, const struct sr_access *a);

/*
 * A load of one of its words that nobody was seen waiting at, and that makes the race a note if it waits (shim/replay/trial.h).
 * NULL: there is none.
 */
const struct sr_access *sr_race_load_to_try(const struct sr_races *r, const struct sr_race *s);

/*
 * Of a request that sent changed bytes (changed.h) the search has found a race with a change by nobody knows whom.  Where it has
 * found another race with the same buffer, that access was it: what was predicted of it is observed.  Else somebody unseen was.
 */
void sr_races_explain_changes(struct sr_races *r);

/* The first bytes of what both access; length 0: they are not known. */
struct sr_race_content {
	uint8_t bytes[8];
	uint32_t length;
};

struct sr_race_contents {
	struct sr_race_content a, b; /* what the two found or left there in this run */
	/* What the one that reads, if only one does, would have found in the other order. */
	struct sr_race_content other;
	bool a_reads, b_reads;
};

void sr_race_find_contents(const struct sr_races *r, const struct sr_race *s, struct sr_race_contents *c);

/* By its evidence and class. */
enum sr_race_severity sr_race_severity_of(const struct sr_race *r);

const char *sr_race_evidence_word(enum sr_race_evidence e);
const char *sr_race_class_word(enum sr_race_class c);
const char *sr_race_severity_word(enum sr_race_severity s);
/* "WRITE", "load", "gather of a SEND" */
const char *sr_race_access_words(const struct sr_access *a, char text[64]);

#endif
