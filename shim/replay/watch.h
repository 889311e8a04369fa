/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch.h: what the program stores to some of its memory, call by call, for `sreplay races`.
 *
 * The ranges to watch are in a file that the command has opened; what is found is appended to it (replay/abi/watch.h).
 * Those of their pages that the program may have stored to unseen (watch_pages.h) are compared with a copy at the beginning
 * of each call, and where values of peers enter: what differs then was stored by the program.  What enters by a call or as a
 * value of a peer is taken into the copy.  Single loads and stores come from watch_access.h.
 */
#ifndef SHIM_REPLAY_WATCH_H
#define SHIM_REPLAY_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "logd/trace/exposed_event.h"
#include "replay/abi/watch.h"
#include "shim/core/call.h"
#include "shim/core/thread.h"
#include "shim/replay/watch_access.h"

/* There is something to watch. */
extern bool sr_watch_on SR_HIDDEN;

/* Before the program runs.  False: the file cannot be used. */
bool sr_watch_start(int fd);

/* Any thread, in a call. */
void sr_watch_call_begins(const struct sr_thread *t, const struct sr_call_desc *d);
/* Its result is known, and the call changes memory next. */
void sr_watch_call_delivers(const struct sr_thread *t, const struct sr_call_desc *d, uint64_t result);
void sr_watch_call_ends(const struct sr_call_desc *d, const uint64_t *a, uint64_t result);

/* A call is about to make memory exposed, or the program's own again: pages are open until it ends. */
void sr_watch_regions_change(void);

/* The thread, between two calls, lets others run, or has run beside them. */
void sr_watch_others_run(const struct sr_thread *t);

/* A poll that found nothing comes again, as one of many: may it be answered without these functions? */
bool sr_watch_polls_in_vain(void);

/* These values of peers are about to be put into memory.  In a fault handler too. */
void sr_watch_values(const struct sr_thread *t, const struct sr_exposed_event *e);

#endif
