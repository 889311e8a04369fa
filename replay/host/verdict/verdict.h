/* SPDX-License-Identifier: BSD-2-Clause */
/* verdict.h: the outcome of a replay, as a message and an exit status. */
#ifndef REPLAY_HOST_VERDICT_VERDICT_H
#define REPLAY_HOST_VERDICT_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/abi/control.h"
#include "replay/host/producers/found.h"
#include "replay/print/print.h"

enum sr_verdict_kind {
	SR_VERDICT_FAILED,
	SR_VERDICT_EXACT, /* to its end, or to where the recorded process was killed */
	SR_VERDICT_CUT,   /* to the end of an incomplete trace, or until the user ended it */
};

/* Room for "exact", and all that may not be compared. */
#define SR_VERDICT_TEXT 640

struct sr_verdict {
	struct sr_trace *trace;
	int32_t rank;
	int wait_status; /* of the replayed process */
	bool stuck;      /* it made no progress and was killed; sr_stuck_say has printed where */
	bool with_tool;  /* it ran under one */
	bool debugged;   /* it may be ended by the debugger at any time */
	uint32_t image, images; /* which of the rank's it is */
	uint64_t calls_before;  /* of the earlier images */
	uint32_t children_before; /* of these, which did not run */
	uint32_t children_in_group; /* that are replayed as members of the group */
	uint64_t recorded_calls;
	bool killed;                 /* the recording ends where the process was killed */
	bool writing;                /* ... or a thread ended, in a call that writes */
	const char *warning;         /* about the trace, or NULL */
	struct sr_found_bytes found; /* of a group */
	struct sr_print with;
	enum sr_verdict_kind how;    /* what sr_verdict_say came to */
	char text[SR_VERDICT_TEXT];  /* of its last line; "": there was none */
};

/* The rank's name, "3" or "3/1". */
static inline const char *sr_verdict_rank(const struct sr_verdict *v)
{
	return sr_trace_rank_name(v->trace, v->rank);
}

/* Prints it on standard error; returns the exit status of `sreplay replay`. */
int sr_verdict_say(struct sr_verdict *v, const struct sr_replay_control *c);

#endif
