/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sandbox.h: `sreplay replay --sandbox DIR`: the replayed process finds the
 * machine's files where they are, and what it writes goes into DIR/out.
 *
 * An overlay file system over each of the machine's, in a mount namespace of the
 * process's own: nothing of it has to be intercepted.
 */
#ifndef REPLAY_HOST_START_SANDBOX_H
#define REPLAY_HOST_START_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Make DIR, which must be new or empty.  path: its absolute one.  What is put
 * into DIR/out before the process starts takes the place of the machine's
 * files.  False after a message.
 */
bool sr_sandbox_make(const char *dir, char *path, size_t size);

/* Of the process that is to be replayed; its working directory is / then.  False after a message.
 */
bool sr_sandbox_enter(const char *path);

/*
 * When the process has ended: what is only needed by it goes; DIR/out stays, if
 * there is anything in it.
 */
void sr_sandbox_end(const char *path);

#endif
