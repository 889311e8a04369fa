/* SPDX-License-Identifier: BSD-2-Clause */
/* races_watch.h: replays ranks and watches what they load and store, for `sreplay races --local=replay`. */
#ifndef REPLAY_COMMAND_RACES_WATCH_H
#define REPLAY_COMMAND_RACES_WATCH_H

#include "replay/analysis/races/collect.h"
#include "replay/analysis/races/stacks.h"

/*
 * Replays each rank of the trace, `jobs` of them at once.  What is found does not depend on that.  False after a message.
 * To be freed in both cases.
 */
bool sr_watches_find(struct sr_race_watches *s, struct sr_race_stacks *stacks, const struct sr_race_collecting *how,
		     const char *dir, unsigned int jobs);

#endif
