/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch.h: what the program stores to some of its memory, call by call, for `sreplay races`.
 *
 * The pages to watch are in a file that the command has opened; what is found is appended to it (replay/abi/watch.h).
 * Each page is compared with a copy at the beginning of each call, and where values of peers enter: what differs then
 * was stored by the program. What
 * enters by a call or as a value of a peer is taken into the copy.
 */
#ifndef SHIM_REPLAY_WATCH_H
#define SHIM_REPLAY_WATCH_H

#include <stdint.h>

#include "logd/trace/exposed_event.h"
#include "shim/core/thread.h"

/* Before the program runs.  False: the file cannot be used. */
bool sr_watch_start(int fd);

/* Any thread, in a call. */
void sr_watch_call_begins(const struct sr_thread *t);
void sr_watch_call_ends(void);

/* These values of peers are about to be put into memory.  In a fault handler too. */
void sr_watch_values(const struct sr_thread *t, const struct sr_exposed_event *e);

#endif
