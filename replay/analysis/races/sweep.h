/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sweep.h: finds the pairs of accesses that conflict and that nothing orders.
 *
 * For such a pair there is a prefix of the run, closed under its orders, behind which both come next (the
 * frontier of Netzer and Miller): the run can go on with either of them.  The order by which one of the two
 * read what the other wrote does not count.
 */
#ifndef REPLAY_ANALYSIS_RACES_SWEEP_H
#define REPLAY_ANALYSIS_RACES_SWEEP_H

#include "replay/analysis/races/model.h"

#define SR_SWEEP_THREADS_MOST 16

struct sr_sweep {
	/* Up to which surety the pair is without an order; a->from comes first in the pass.  doubts: SR_DOUBT_SENT, SR_DOUBT_LOOP. */
	int (*found)(void *argument, const struct sr_access *a, const struct sr_access *b, enum sr_surety unordered,
		     uint16_t doubts);
	/* NULL, or told of conflicts of two ranks that something orders, a first: the last one of a row of equal ones. */
	int (*ordered)(void *argument, const struct sr_access *a, const struct sr_access *b);
	/* Where it is from: races of accesses from the same places are one race.  NULL: its site. */
	uint64_t (*origin)(void *argument, const struct sr_access *a);
	void *argument;
	/* So many compare at once, each in a part of the memory.  origin() is called by all of them, found() by the caller only. */
	unsigned int threads; /* 0 or 1: only the caller; so it is with `ordered` */
	size_t batch; /* moments that threads are given at once; 0: as many as are good for speed */
	uint64_t pairs;   /* compared */
	uint64_t dropped; /* orders that were not sure, and contradicted others */
};

/* The model is sorted.  0, -errno, or what the function returned.  What is found, and in which order, does not depend on the threads. */
int sr_sweep(const struct sr_race_model *m, struct sr_sweep *s);

#endif
