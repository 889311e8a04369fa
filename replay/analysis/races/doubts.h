/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doubts.h: what orders two accesses beyond the model, or besides it.
 *
 * What a rank learned from outside of the recorded ranks may go back to what another one told there, unseen.
 */
#ifndef REPLAY_ANALYSIS_RACES_DOUBTS_H
#define REPLAY_ANALYSIS_RACES_DOUBTS_H

#include <pthread.h>

#include "replay/analysis/races/collect.h"

struct sr_race_doubts;

/* Calls of the ranks of a and b; NULL: there is none.  Of two accesses of one rank only the first is filled in. */
struct sr_race_bounds {
	const struct sr_race_call *before[2]; /* the last one that comes before both in every run */
	const struct sr_race_call *after[2];  /* the first one that comes after both */
};

/* Where something came from outside of the recorded ranks that may order two accesses. */
struct sr_race_entry {
	const struct sr_race_call *call; /* the rank's last one up to there; NULL: it is not known */
	uint32_t rank;
	bool is_socket;
};

/* NULL: no memory. */
struct sr_race_doubts *sr_race_doubts_new(const struct sr_race_run *r);

/* The same by a thread of its own. */
struct sr_race_doubts_making {
	pthread_t thread;
	bool is_under_way;
};

/* Until the end the run's model must not change.  If there can be no thread, nothing is made. */
void sr_race_doubts_begin(struct sr_race_doubts_making *m, const struct sr_race_run *r);
/* NULL: none was under way, or there was no memory. */
struct sr_race_doubts *sr_race_doubts_end(struct sr_race_doubts_making *m);

void sr_race_doubts_free(struct sr_race_doubts *d);

/*
 * Is there a global state without `b` in which all ranks know that `a` is over, and each of them knows of each other one
 * something that did not come before `a`?  So it is if a barrier is between the two.  Something orders them, a first; the
 * lanes of the ranks are the model's first ones.
 */
bool sr_race_do_all_know(struct sr_race_doubts *d, size_t ranks, const struct sr_access *a, const struct sr_access *b);

/* For two accesses that no order of the model orders: a doubt (model.h), or 0.  entry: where it came in, if it is SR_DOUBT_OUTSIDE. */
uint16_t sr_race_may_be_ordered_outside(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b, struct sr_race_entry *entry);

/* For two accesses that no order of the model orders. */
void sr_race_find_bounds(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b, struct sr_race_bounds *bounds);

/* Does this moment come before that one in every run in which values come from where they came from? */
bool sr_race_is_moment_before(struct sr_race_doubts *d, uint32_t before, uint32_t moment);

/* Does a come before b in every run, whatever b reads? */
bool sr_race_comes_before(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b);

#endif
