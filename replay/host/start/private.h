/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * private.h: the directory of a replay's private files (shim/files/private.h).
 *
 * A process of its own removes the directory when the replay has ended, however it has ended: also
 * if the command is killed.  It has no other job.
 */
#ifndef REPLAY_HOST_START_PRIVATE_H
#define REPLAY_HOST_START_PRIVATE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sr_private {
	char path[PATH_MAX]; /* "": there is none */
	int alive;           /* a pipe: closed when the command has ended */
	pid_t remover;
};

/*
 * Makes the directory in `in`, or, if that is NULL, in $TMPDIR or else /tmp.  False after a
 * message.
 */
bool sr_private_make(struct sr_private *p, const char *in);

/* Removes it.  Call when no replayed process runs any more. */
void sr_private_remove(struct sr_private *p);

#endif
