/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traces.h: where traces without a name go: $SREPLAY_TRACE_DIR, or the current directory.
 *
 * The name is COMMAND-N.srec.  All ranks of one launch take the same N: the first one to come makes
 * the directory, with the launch's identity in a hidden file, and the others find it by that.
 */
#ifndef REPLAY_COMMAND_TRACES_H
#define REPLAY_COMMAND_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* $SREPLAY_TRACE_DIR, or ".". */
const char *sr_traces_dir(void);

/*
 * Makes the directory of a trace of this command, or finds the one that another rank of the same
 * launch has made, and that has not this rank yet.  Its absolute path, malloc'ed; NULL after a
 * message.
 */
char *sr_traces_claim(const char *command, long rank);

/* The trace was not written after all: removes the directory, unless another rank uses it. */
void sr_traces_release(const char *trace);

/* A trace in that directory. */
struct sr_trace_found {
	char *path;
	int64_t began; /* nanoseconds, of its manifest */
};

/* All, the newest first; -errno.  To be freed. */
int sr_traces_list(struct sr_trace_found **list, size_t *n);
void sr_traces_free(struct sr_trace_found *list, size_t n);

/*
 * The trace that a user means: NULL is the newest one, and a name that is not there may be one of
 * $SREPLAY_TRACE_DIR, without its ending.  NULL after a message; else it lives as long as the
 * process.
 */
const char *sr_traces_find(const char *name);

#endif
