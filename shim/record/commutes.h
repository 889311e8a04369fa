/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commutes.h: records of a region in which the program says that completions commute (include/sreplay/order.h), with
 * record --order.
 *
 * A poll that brought a completion, and the receives that are posted behind it, are a group.  Groups are held back, and
 * written one send or receive queue after the other: as if the completions had come in that order.  So the trace tells
 * nothing of their order but how many there are of each queue, and a replay needs to know nothing of regions: it
 * hands out what is recorded.  Polls in vain are left out, but for those behind the last group.
 *
 * Whatever else is recorded comes behind all that is held (sr_flush_repeats() in emit.h).  Until it ends, a region lets nobody else go on; so no rank waits
 * for what was moved behind something else.
 *
 * Clocks of peers are sampled only where something visible follows, in front of the groups.  Sums (shim/core/sums.h) are held
 * with the records.  All of this is of one thread, in a process that has no others.
 */
#ifndef SHIM_RECORD_COMMUTES_H
#define SHIM_RECORD_COMMUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/core/call.h"
#include "shim/core/thread.h"

/* Can the call be one of a group, or a poll in vain? */
bool sr_commutes_may_take(const struct sr_thread *t, enum sr_call_number n, const uint64_t *a);

/* The call has been made; its record is in t->buf.  True: it is held back, and the SN is not counted yet. */
bool sr_commutes_take(struct sr_thread *t, enum sr_call_number n, const uint64_t *a, uint64_t result);

/*
 * A call begins that does not commute.  ends: it ends the region, so that the last group may be moved, too; else what the
 * program does now may depend on that group.
 */
void sr_commutes_pass(struct sr_thread *t, bool ends);

/* The process has other threads now. */
void sr_commutes_stop(struct sr_thread *t);

/* The thread ends. */
void sr_commutes_free(struct sr_thread *t);

#endif
