/* SPDX-License-Identifier: BSD-2-Clause */
/* state.h: prints where the ranks of a group are when one of them ends the replay. */
#ifndef REPLAY_HOST_GROUP_STATE_H
#define REPLAY_HOST_GROUP_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
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

/* For each thread: the number of calls, the next call, and the call that it waits for. */
void sr_group_say_states(struct sr_trace *t, const struct sr_group_view *v);

#endif
