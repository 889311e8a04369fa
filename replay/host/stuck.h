/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stuck.h: prints where a replay that makes no progress is: for each thread the last recorded
 * calls, the next one, and the stack.
 */
#ifndef REPLAY_HOST_STUCK_H
#define REPLAY_HOST_STUCK_H

#include <sys/types.h>

#include "replay/abi/control.h"
#include "replay/print/print.h"

struct sr_stuck {
	struct sr_trace *trace;
	int32_t rank;
	long seconds; /* without a recorded call */
	pid_t process;
	const struct sr_replay_control *control;
	const struct sr_print *with;
};

/* On standard error; the process must still exist. */
void sr_stuck_say(const struct sr_stuck *s);

/* The last calls of a thread before SN sn, as lines on standard error. */
void sr_say_calls_before(struct sr_trace *t, int32_t rank, uint32_t thread, uint64_t sn,
			 const struct sr_print *with);

#endif
