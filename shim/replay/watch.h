/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch.h: what the program stores to some of its memory, call by call, for `sreplay races`.
 *
 * The ranges to watch are in a file that the command has opened; what is found is appended to it (replay/abi/watch.h).
 * Each of their pages is compared with a copy at the beginning of each call, and where values of peers enter: what
 * differs then was stored by the program.  What enters by a call or as a value of a peer is taken into the copy.  Single
 * loads and stores come from watch_access.h.
 */
#ifndef SHIM_REPLAY_WATCH_H
#define SHIM_REPLAY_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/exposed_event.h"
#include "replay/abi/watch.h"
#include "shim/core/call.h"
#include "shim/core/thread.h"
#include "shim/replay/watch_access.h"

/* Before the program runs.  False: the file cannot be used. */
bool sr_watch_start(int fd);

/* Any thread, in a call. */
void sr_watch_call_begins(const struct sr_thread *t, const struct sr_call_desc *d);
/* Its result is known, and the call changes memory next. */
void sr_watch_call_delivers(const struct sr_thread *t, const struct sr_call_desc *d, uint64_t result);
void sr_watch_call_ends(const struct sr_call_desc *d, const uint64_t *a, uint64_t result);

/* These values of peers are about to be put into memory.  In a fault handler too. */
void sr_watch_values(const struct sr_thread *t, const struct sr_exposed_event *e);

#endif
