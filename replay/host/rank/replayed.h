/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replayed.h: one process while it is replayed: what rank.c prepares, starts, watches and judges.  Each function is called
 * once, in this order, by one thread.
 */
#ifndef REPLAY_HOST_RANK_REPLAYED_H
#define REPLAY_HOST_RANK_REPLAYED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "logd/trace/reader.h"
#include "replay/abi/control.h"
#include "replay/abi/group.h"
#include "replay/analysis/plan/plan.h"
#include "replay/host/feeder.h"
#include "replay/host/forks.h"
#include "replay/host/orders.h"
#include "replay/host/rank/options.h"
#include "replay/host/start/recorded.h"
#include "replay/host/start/trust.h"
#include "replay/host/verdict/verdict.h"

struct sr_replayed_rank {
	struct sr_trace *trace;
	struct sr_forks forks; /* the first one's process is started */
	const struct sr_rank_options *options;
	struct sr_recorded recorded;
	struct sr_replay_control *control;
	int control_fd;
	struct sr_group *group; /* NULL: alone */
	struct sr_plan *plan;   /* in a group */
	struct sr_orders *orders;
	struct sr_feeder_rings rings;
	struct sr_feeder *feeders;
	size_t n_feeders;
	enum sr_trust trust;
	int files_fd, journal_fd; /* as in the control page, which the process changes */
	pid_t child;            /* the program, or the tool that runs it */
};

/*
 * Prepares the private files, and prints which of the program's inputs have changed.  False after a message; so are those
 * below.
 */
bool sr_replayed_open_files(struct sr_replayed_rank *r);

/*
 * Opens the plan, in a group, and a feeder for each thread.  *limit: how many descriptors a process could open before that
 * raised the limit; 0: not known.
 */
bool sr_replayed_open_streams(struct sr_replayed_rank *r, unsigned long *limit);

/* Starts the program, or the tool that runs it, and the feeders. */
bool sr_replayed_start(struct sr_replayed_rank *r, unsigned long limit);

/* Waits for the end.  Kills a process that makes no progress, after printing where it is. */
void sr_replayed_await(struct sr_replayed_rank *r, struct sr_verdict *v);

/* Loads what messages about calls need: only for them, because reading the schema takes longer than many a replay. */
void sr_replayed_load_print(const struct sr_replayed_rank *r, struct sr_verdict *v);

/* Has the process reported that it did all that was recorded, to its end? */
bool sr_replayed_is_exact(const struct sr_replayed_rank *r);

#endif
