/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * earlier.h: races behind loads that skipped WRITEs (struct sr_race_skip).
 *
 * Such a load may find an earlier WRITE.  What the CPU accesses behind it, up to its thread's next call, then comes after that
 * one only, if the program does it all the same: another replay tries that (shim/replay/trial.h).
 */
#ifndef REPLAY_ANALYSIS_RACES_EARLIER_H
#define REPLAY_ANALYSIS_RACES_EARLIER_H

#include "replay/analysis/races/doubts.h"
#include "replay/analysis/races/sweep.h"

/* Two accesses that are unordered if the load of a skip has found an earlier WRITE. */
struct sr_race_earlier_pair {
	struct sr_access cpu, other; /* cpu: behind the load */
	bool is_cpu_first; /* in the pass */
	enum sr_surety unordered;
	uint16_t doubts;
	const struct sr_race_skip *skip;
	size_t skipped; /* in run->skipped: the last WRITE that does not come after `other` */
	int64_t lead;   /* the more, the likelier is it that the program does the access */
};

struct sr_race_earlier {
	/* To be filled in: */
	const struct sr_race_run *run; /* its accesses are sorted */
	struct sr_race_doubts *doubts;
	int (*found)(void *argument, const struct sr_race_earlier_pair *p);
	uint64_t (*origin)(void *argument, const struct sr_access *a);
	void *argument;
};

/* Can the load have found this one: have later ones not surely come before it? */
bool sr_race_may_find(struct sr_race_doubts *d, const struct sr_race_run *run, const struct sr_race_skip *s, size_t skipped);

/* 0, -ENOMEM, or what found() returned. */
int sr_race_find_earlier(const struct sr_race_earlier *e);

#endif
