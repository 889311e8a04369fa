/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forks.h: the traces that the replay of a child needs: its own, and those of its parents up to the
 * forks.
 */
#ifndef REPLAY_HOST_FORKS_H
#define REPLAY_HOST_FORKS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/abi/control.h"

struct sr_forks {
	size_t n; /* traces; 1: the process was not forked by a recorded one */
	struct sr_trace *trace[SR_REPLAY_FORKS + 1]; /* from the first parent to the child */
	int32_t rank[SR_REPLAY_FORKS + 1]; /* in its trace */
	char dir[SR_REPLAY_FORKS + 1][PATH_MAX];
};

/*
 * Opens the traces of the parents of the rank in t, which is the last one and stays the caller's.
 * False after a message.
 */
bool sr_forks_open(struct sr_forks *f, struct sr_trace *t, int32_t rank);
void sr_forks_close(struct sr_forks *f);

/* The forks at which the process goes on as its child. */
void sr_forks_fill(const struct sr_forks *f, struct sr_replay_fork *forks);

/*
 * The directory of the trace of a child that is named N/K, or of its child K of that, N/K/L: of rank N
 * in the trace `dir`.  *rank: N.  False after a message.
 */
bool sr_forks_find(char path[PATH_MAX], const char *dir, const char *name, int32_t *rank);

#endif
