/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rank.h: replays one recorded process: starts it, feeds it its trace, watches it, and prints the
 * verdict.  For one rank `sreplay replay` does so itself; for a group a process for each rank does
 * (replay/host/group/conduct.h).
 */
#ifndef REPLAY_HOST_RANK_RANK_H
#define REPLAY_HOST_RANK_RANK_H

#include "logd/trace/reader.h"
#include "replay/abi/control.h"
#include "replay/abi/group.h"
#include "replay/host/rank/options.h"

/*
 * Replays the image of the rank that is chosen in the trace.  Returns the exit status.  `group` is NULL for a
 * rank that is replayed alone.  The control page and its descriptor belong to the caller.
 */
int sr_rank_replay(struct sr_trace *t, const struct sr_rank_options *o,
		   struct sr_replay_control *control, int control_fd, struct sr_group *group);

#endif
