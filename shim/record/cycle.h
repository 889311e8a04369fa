/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cycle.h: polls that find nothing and come again, several of them in turn, are counted, not recorded.
 *
 * The first eleven are noted one by one.  What they repeat among themselves is then the cycle, and the next ones are
 * counted as long as they follow it.  The record (SR_REC_CYCLE, or SR_REC_REPEAT for a single poll) comes when
 * something else happens, from sr_flush_repeats().
 */
#ifndef SHIM_RECORD_CYCLE_H
#define SHIM_RECORD_CYCLE_H

#include <stdbool.h>

struct sr_idle;
struct sr_thread;

/* Has the stream the poll's record so near that another one may refer to it? */
bool sr_cycle_may_repeat(const struct sr_thread *t, struct sr_idle *idle);

/* Counts the poll, which found nothing, and of which that holds. */
void sr_cycle_add(struct sr_thread *t, struct sr_idle *idle);

#endif
