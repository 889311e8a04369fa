/* SPDX-License-Identifier: BSD-2-Clause */
/* races_watch.h: replays ranks and watches what they load and store, for `sreplay races --local=replay`. */
#ifndef REPLAY_COMMAND_RACES_WATCH_H
#define REPLAY_COMMAND_RACES_WATCH_H

#include "replay/analysis/races/collect.h"
#include "replay/analysis/races/races.h"
#include "replay/analysis/races/stacks.h"

/*
 * Replays each rank of the trace, `jobs` of them at once.  What is found does not depend on that.  False after a message.
 * To be freed in both cases.
 */
bool sr_watches_find(struct sr_race_watches *s, struct sr_race_stacks *stacks, const struct sr_race_collecting *how,
		     const char *dir, unsigned int jobs);

/*
 * A word that is there each time a rank looks for it: would the rank have waited?  The loads of these races are tried, each in a further
 * replay, in which it finds what was there before.  1: some wait, which is noted in s; 0: none; -errno after a message.
 */
int sr_watches_try(struct sr_race_watches *s, const struct sr_races *r, const char *dir);

/* Takes out the races behind loads of earlier values (struct sr_race) whose access is not done then, or may not be.  0; -errno after a message. */
int sr_watches_try_skips(struct sr_race_watches *s, struct sr_races *r, const char *dir);

#endif
