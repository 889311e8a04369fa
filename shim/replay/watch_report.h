/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch_report.h: what a watched replay (watch.h) writes into its file: each access once between two events; and which
 * loads wait for what they load to change.
 *
 * All functions are called with the lock of watch_pages.h.
 */
#ifndef SHIM_REPLAY_WATCH_REPORT_H
#define SHIM_REPLAY_WATCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/abi/watch.h"
#include "shim/replay/watch_pages.h"

/* Before the program runs.  is_trial: only that a load waits is written.  false: no memory. */
bool sr_watch_report_start(int fd, bool is_trial);

/* Something comes between the accesses before and those behind: a call, or values of peers. */
void sr_watch_event(void);
/* A call has brought something: no poll in vain, no clock. */
void sr_watch_call_brings(void);

/* An access to this page was seen. */
void sr_watch_report(const struct sr_watched *p, const struct sr_watch_access *a);
/* Writes it in any case. */
void sr_watch_put(const struct sr_watch_access *a);

#endif
