/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.h: the order in which what the threads of a process do takes effect.
 *
 * A process that ever had a second thread numbers its events, from 1, and the
 * record of a call ends with the numbers of its events.  A replay lets them
 * happen one after the other (shim/replay/tickets.h).  While there is one thread
 * nothing is numbered, and nothing is added to a record.
 *
 * What makes that order right is where a number is drawn:
 *     a call by which others can go on (post_send, write, unlock, sem_post)
 *     draws before the real call: what they then see has a higher number;
 *     a call that sees what others did (poll_cq, read, a lock taken) draws after
 *     the real call: what it saw has a lower number;
 *     a call that does both, or of which calls.def says nothing, draws twice.
 * So the numbers are an order in which all that was seen can have been seen,
 * whatever the scheduler did between a draw and its real call.  Of threads that take turns
 * (run_token.h) it is that of the program's code between the calls as well.
 *
 * These are not the event numbers of the process's clock (nicclock/clock.h),
 * although both count what the process does.  A replay takes each of these in its
 * turn, so each must be a call's and none may be left out; the clock's are drawn
 * for a fault or a look as well, in processes with one thread too, where nothing is
 * numbered here, and in a word that other processes read by RDMA.  What joins
 * the two is the stream: both are in the thread's, in its order.
 *
 * The numbers are absolute.  Differences would be smaller, but a stream with a
 * hole (--lossy) or read from its middle would lose them.
 */
#ifndef SHIM_CORE_ORDER_H
#define SHIM_CORE_ORDER_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"

/* Set before the first thread is created, and for ever.  False in a forked child. */
extern bool sr_threaded SR_HIDDEN;

struct sr_events {
	_Alignas(64) _Atomic uint64_t drawn;
};

extern struct sr_events sr_events SR_HIDDEN;

/* Of the next event.  The one locked instruction that an ordered call costs. */
static inline uint64_t sr_draw_event(void)
{
	return atomic_fetch_add(&sr_events.drawn, 1) + 1;
}

/* An attempt that found nothing: there is nothing that it has to come after. */
static inline bool sr_found_nothing(const struct sr_call_desc *d, uint64_t result, int error)
{
	if (!(d->order & SR_ORDER_IDLE) || (int)result != d->idle)
		return false;
	return d->idle != -1 || error == EAGAIN;
}

/* In sr_call_head.error: the thread was cancelled in this call. */
#define SR_ERROR_CANCELLED (-1)

#endif
