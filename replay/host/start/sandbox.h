/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox.h: `sreplay replay --sandbox DIR`: the replayed process finds the machine's files at
 * their paths, and what it writes goes to DIR/out.
 *
 * It puts an overlay file system over each of the machine's, in a mount name space of the process;
 * no call has to be intercepted for it.
 */
#ifndef REPLAY_HOST_START_SANDBOX_H
#define REPLAY_HOST_START_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes DIR, which must be new or empty; path: its absolute path.  Files that are put into DIR/out
 * before the process starts replace the machine's.  False after a message.
 */
bool sr_sandbox_make(const char *dir, char *path, size_t size);

/*
 * Call in the process that is to be replayed; its working directory becomes /.  False after a
 * message.
 */
bool sr_sandbox_enter(const char *path);

/* Call when the process has ended: removes all but DIR/out, and DIR/out if it is empty. */
void sr_sandbox_end(const char *path);

#endif
