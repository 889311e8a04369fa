/* SPDX-License-Identifier: BSD-2-Clause */
/* confirm_run.h: runs the job once more, for `sreplay confirm`: recorded, with the two accesses
 * held. */
#ifndef REPLAY_COMMAND_CONFIRM_RUN_H
#define REPLAY_COMMAND_CONFIRM_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "replay/abi/confirm.h"

/* What does not change between runs. */
struct sr_confirming {
	const char *dir;     /* absolute: of the trace */
	char **command;      /* as the user would run it */
	char *ranks;         /* that are recorded: a list */
	const char *threads; /* --threads */
	bool live_files;
	char socket_path[108];
};

struct sr_confirm_outcome {
	struct sr_confirm c; /* as the ranks have left it */
	int status;          /* of the command */
	uint64_t ns;         /* that it took */
	char trace[PATH_MAX], output[PATH_MAX];
};

/* Makes DIR.srec/races, and sees to a daemon.  False after a message. */
bool sr_confirming_begin(struct sr_confirming *x);

/*
 * A run that is recorded as DIR.srec/races/NAME.srec, and what it prints as NAME.out.  False after
 * a message: it could not be made, or recorded nothing.
 */
bool sr_confirm_run(const struct sr_confirming *x, const struct sr_confirm *wanted,
		    const char *name, struct sr_confirm_outcome *outcome);

/* Removes what a run has left. */
void sr_confirm_forget(const struct sr_confirming *x, const char *name);

#endif
