/* SPDX-License-Identifier: BSD-2-Clause */
/* state.h: where the ranks of a group are, in words, when one of them ends the replay. */
#ifndef REPLAY_HOST_GROUP_STATE_H
#define REPLAY_HOST_GROUP_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/control.h"
#include "replay/abi/group.h"

struct sr_group_rank {
	int32_t rank;
	const struct sr_replay_control *control;
	bool ended;
};

struct sr_group_view {
	size_t count;
	struct sr_group_rank rank[SR_GROUP_MEMBERS];
};

/* Of each: how many calls of each thread, which one is next, and for whom it waits. */
void sr_group_say_states(const char *dir, const struct sr_group_view *v);

#endif
