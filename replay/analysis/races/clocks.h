/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clocks.h: vector clocks of a model's moments, as a pass over them goes on.
 *
 * A clock has a number for each chain and surety: how many moments of that chain come before.  The moments
 * of a lane are one chain; a loose lane has as many chains as it needs so that each is ordered.  Clocks exist
 * only where the pass is: memory is bounded by what is under way.
 */
#ifndef REPLAY_ANALYSIS_RACES_CLOCKS_H
#define REPLAY_ANALYSIS_RACES_CLOCKS_H

#include "replay/analysis/races/model.h"

struct sr_race_clocks;

/* What comes before a moment, without what that read itself. */
struct sr_race_past {
	struct clock *clock; /* it may have the moment itself; NULL: nothing comes before */
	uint64_t stamp; /* the moment's place: sr_race_clocks_stamp() */
	bool is_broken; /* sr_race_clocks_is_broken(), at that moment */
};

/* For a model that does not change any more.  NULL: no memory. */
struct sr_race_clocks *sr_race_clocks_new(const struct sr_race_model *m);
void sr_race_clocks_free(struct sr_race_clocks *c);

/*
 * Goes to the next moment, after all that come before it: its number; SR_NO_MOMENT: the end, or an error.
 * An order that is not sure is dropped if the others contradict it.
 */
uint32_t sr_race_clocks_next(struct sr_race_clocks *c);

/* 0 or -ENOMEM. */
int sr_race_clocks_error(const struct sr_race_clocks *c);
uint64_t sr_race_clocks_dropped(const struct sr_race_clocks *c);
/* Were there sure ones among them?  They contradict each other. */
bool sr_race_clocks_is_broken(const struct sr_race_clocks *c);

/* Does `before` come before the moment that the pass is at?  What that read itself is left out. */
bool sr_race_is_before(const struct sr_race_clocks *c, uint32_t before, enum sr_surety surety);

/*
 * The past of the moment that the pass is at, to be dropped later.  What is asked about it does not depend on where the pass
 * is, and may be asked by other threads while it goes on; all else is the business of one thread.
 */
struct sr_race_past sr_race_clocks_keep(struct sr_race_clocks *c);
void sr_race_clocks_drop(struct sr_race_clocks *c, struct sr_race_past *p);
size_t sr_race_past_size(const struct sr_race_past *p);
bool sr_race_was_before(const struct sr_race_clocks *c, const struct sr_race_past *p, uint32_t before, enum sr_surety surety);

/* The place of a moment that the pass has come to, which does not change any more; 0: it has not. */
uint64_t sr_race_clocks_stamp(const struct sr_race_clocks *c, uint32_t moment);
bool sr_race_has_stamp(const struct sr_race_past *p, uint64_t stamp, enum sr_surety surety);

#endif
