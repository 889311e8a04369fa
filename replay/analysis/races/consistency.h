/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * consistency.h: is the run, and is each run that goes on as it did, as if the accesses of all ranks came one after the
 * other, those of each thread in the order of its program (sequential consistency)?
 *
 * Observed: what was read in this run contradicts that, by a cycle of accesses.  Possible: a cycle of two threads and two places in
 * memory (Shasha and Snir), of which one thread's second access may come before its first one.
 */
#ifndef REPLAY_ANALYSIS_RACES_CONSISTENCY_H
#define REPLAY_ANALYSIS_RACES_CONSISTENCY_H

#include "replay/analysis/races/doubts.h"

#define SR_CYCLE_MOST 8

/* Why an access comes before the next one of a cycle. */
enum sr_cycle_order {
	SR_CYCLE_PROGRAM,   /* the thread's program has them in this order */
	SR_CYCLE_READ_FROM, /* the next one found what this one wrote */
	SR_CYCLE_FROM_READ, /* the next one changed what this one had found as it was before */
	SR_CYCLE_CONFLICT,  /* they conflict, and nothing orders them */
};

/* Two accesses of a thread that may come the other way round, and what would keep their order. */
#define SR_CURE_WAIT       1u /* wait for the completion of the first one */
#define SR_CURE_SAME_QUEUE 2u /* post both on one queue pair */
#define SR_CURE_FENCE      4u /* IBV_SEND_FENCE */

struct sr_cycle {
	struct sr_access at[SR_CYCLE_MOST];
	uint8_t order[SR_CYCLE_MOST]; /* from each one to the next one, and from the last one to the first one */
	uint8_t cures[SR_CYCLE_MOST]; /* where the order is the program's, and may be lost: SR_CURE_*; else 0 */
	uint32_t n;
	uint64_t count; /* such cycles that were found */
	bool is_observed;
};

struct sr_consistency {
	struct sr_cycle *cycles; /* observed ones first */
	size_t n, room;
	uint64_t not_asked; /* pairs that were too many to be looked at */
};

/* What the search for races has found, as numbers of accesses: pairs without an order. */
struct sr_race_pairs {
	struct sr_race_pair {
		uint32_t a, b;
		bool is_doubtful; /* a doubtful order may be one */
	} *all;
	size_t n, room;
};

/* Where an access is from, by its stack. */
typedef uint64_t (*sr_access_origin)(void *argument, const struct sr_access *a);

/* Both add what they find.  0 or -ENOMEM. */
int sr_consistency_observed(struct sr_consistency *s, const struct sr_race_run *run, sr_access_origin origin, void *argument);
int sr_consistency_possible(struct sr_consistency *s, const struct sr_race_run *run, struct sr_race_doubts *doubts,
			    const struct sr_race_pairs *pairs, sr_access_origin origin, void *argument);

/* If one from the same places is there, it is counted.  0 or -ENOMEM. */
int sr_consistency_add(struct sr_consistency *s, const struct sr_cycle *c, sr_access_origin origin, void *argument);
void sr_consistency_free(struct sr_consistency *s);

/*
 * Accesses of ranks to memory, by thread in the order of its program: requests by their posts, loads and stores.  Those of which the order
 * is in doubt are left out.
 */
struct sr_program_order {
	uint32_t *at;   /* accesses */
	uint32_t *place; /* by access: where in `at`; SR_NO_MOMENT: it is left out */
	size_t n;
};

/* False: no memory. */
bool sr_program_order_make(struct sr_program_order *p, const struct sr_race_model *m);
void sr_program_order_free(struct sr_program_order *p);
/* Are both of one thread? */
bool sr_is_same_thread(const struct sr_access *a, const struct sr_access *b);

/* b is later in the program of the same thread: what would keep them in order (SR_CURE_*); 0: something does. */
uint8_t sr_cures_of(const struct sr_access *a, const struct sr_access *b);

#endif
