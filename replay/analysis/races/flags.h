/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flags.h: is a word that one agent changes and another one loads a flag?
 *
 * It is one if the loading instruction waits for it (struct sr_access, is_polled), or if what it tells orders other
 * accesses: without the orders from these changes to these loads there are races that there are not with them.
 */
#ifndef REPLAY_ANALYSIS_RACES_FLAGS_H
#define REPLAY_ANALYSIS_RACES_FLAGS_H

#include "replay/analysis/races/sweep.h"

/* A change of an aligned word at most, and who may wait for it: a CPU, or READs that poll it. */
bool sr_race_is_word(const struct sr_access *write, const struct sr_access *load);

/* A store of the owner's CPU and a READ of one aligned word: whether it is a flag, sr_race_find_flag() says. */
bool sr_race_may_be_flag(const struct sr_access *change, const struct sr_access *read);

/*
 * A CPU waits for the last word of a longer WRITE: who sees these sees all of it where data comes in ascending order, as
 * devices write that of a reliable connection.
 */
bool sr_race_is_tail(const struct sr_access *write, const struct sr_access *load);

/* Would it be a word, or the end of a longer WRITE, that a CPU waits for, if this load waited? */
bool sr_race_may_be_awaited(const struct sr_access *write, const struct sr_access *load);

/* What is asked about the pairs of a sweep. */
struct sr_race_flag {
	/* To be filled in: is an access one of those that change the flag, or of those that load it? */
	bool (*is_change)(const void *argument, const struct sr_access *a);
	bool (*is_load)(const void *argument, const struct sr_access *a);
	/* Is this pair a race with the orders, too?  unordered: sweep.h, without them. */
	bool (*is_known)(const void *argument, const struct sr_access *a, const struct sr_access *b, enum sr_surety unordered);
	const void *argument;

	bool is_flag;
};

/* The model is sorted, and the same afterwards.  0 or -ENOMEM. */
int sr_race_find_flag(struct sr_race_model *m, struct sr_race_flag *f);

#endif
