/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.h: the order in which the calls of a process's threads take effect.
 *
 * A process that ever had a second thread numbers its events, from 1, and the record of a
 * call ends with the numbers of its events. A replay lets the events happen in the order of
 * their numbers (shim/replay/tickets.h). While there is one thread, nothing is numbered,
 * and records do not end with numbers.
 *
 * The order is right because of where a number is drawn:
 *     A call that lets others continue (post_send, write, unlock, sem_post) draws before the
 *     real call: whatever others see of it has a higher number.
 *     Of posts, peers see the order: one at a time draws and posts to a queue (SR_ORDER_POSTS).  In the same way, one at
 *     a time polls and draws (SR_ORDER_POLLS): completions have an order of their own.
 *     A call that sees what others did (poll_cq, read, taking a lock) draws after the real
 *     call: whatever it saw has a lower number.
 *     A call that does both, or about which calls.def says nothing, draws twice.
 * So what each thread saw is possible in the order of the numbers, whatever the scheduler
 * did between a draw and its real call. If threads run one at a time (run_token.h), the
 * numbers also order the program's code between the calls.
 *
 * These are not the event numbers of the process's clock (nicclock/clock.h), although both
 * count what the process does. A replay waits for each of these numbers, so each belongs to
 * a call and none may be missing. The clock's numbers are also drawn at a fault or a
 * sample, also in processes with one thread, and from a word that other processes read by
 * RDMA. Both kinds are in the thread's stream, in its order.
 *
 * The numbers are absolute. Differences would be smaller, but a reader could not decode
 * them after a hole (--lossy) or from the middle of a stream.
 */
#ifndef SHIM_CORE_ORDER_H
#define SHIM_CORE_ORDER_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"

/* Set before the first thread is created, and reset only in a forked child. */
extern bool sr_threaded SR_HIDDEN;

struct sr_events {
	_Alignas(64) _Atomic uint64_t drawn;
};

extern struct sr_events sr_events SR_HIDDEN;

/* Draws the number of the next event: the one locked instruction that an ordered call costs. */
static inline uint64_t sr_draw_event(void)
{
	return atomic_fetch_add(&sr_events.drawn, 1) + 1;
}

/* Did the call find nothing? Then it need not come after any other event. */
static inline bool sr_found_nothing(const struct sr_call_desc *d, uint64_t result, int error)
{
	if (!(d->order & SR_ORDER_IDLE) || (int)result != d->idle)
		return false;
	return d->idle != -1 || error == EAGAIN;
}

/* Value of sr_call_head.error: the thread was cancelled in this call.  No program sets errno to that; libaudit sets it to -1. */
#define SR_ERROR_CANCELLED INT32_MIN

#endif
