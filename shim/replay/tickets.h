/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tickets.h: replay: the events of a process's threads happen one after the other,
 * in the recorded order (shim/core/order.h).
 *
 * A call waits until the ticket of its event is called, does its work, and passes
 * the ticket on; what threads do in between happens in parallel.  All real
 * synchronisation of the recorded program has become this one.  If the threads took turns
 * when they were recorded, a thread passes the ticket on at its next call only.
 *
 * When the recorded process ended (or was killed) some of its threads were inside
 * of calls, which left no record; but they may have drawn a number.  That ticket is
 * never used in the replay, where its thread has come to the end of its stream and
 * is parked.  So when no thread runs, all wait for a ticket or are parked, and some
 * are parked, the missing tickets are passed over.
 */
#ifndef SHIM_REPLAY_TICKETS_H
#define SHIM_REPLAY_TICKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/abi/control.h"

/* The control page has the ticket that is next, and the threads that wait for one. */
void sr_tickets_start(struct sr_replay_control *control);

/* Returns when the event's ticket is called; number is the thread's. */
void sr_ticket_wait(uint32_t number, uint64_t event);

/* The event has happened. */
void sr_ticket_done(uint64_t event);

/*
 * Of threads that take turns (shim/core/run_token.h) one holds its ticket until it comes
 * out of the program's code.  Another one that did not wait for it (from) in the
 * recording waits for a while, and then goes on beside it.  It does not wait for as long
 * as it did then: a thread that spins must not come further than it had.
 */
void sr_ticket_wait_overtaking(uint32_t number, uint64_t event, uint32_t from);
/*
 * This event happened while another thread held the ticket before it, and goes on holding
 * it.  The events behind wait for this one.
 */
void sr_ticket_amidst(uint32_t number, uint64_t event);
/* The thread gives the event's ticket back, if it still holds it. */
void sr_ticket_over(uint64_t event);

/* A thread is about to be created; one has made its last event.  True: see sr_tickets_park. */
void sr_tickets_add_thread(void);
bool sr_tickets_remove_thread(void);

/* This thread has come to the end of its stream.  True: so have all, and nothing more will happen.
 */
bool sr_tickets_park(void);

/*
 * The heap (shim/threads/heap_runs.h).  The run begins when the one before has so many
 * operations.
 */
void sr_heap_run_take(uint32_t owner, uint32_t run, uint32_t previous);
void sr_heap_run_done(void);

/*
 * The thread is at the end of its stream and about to make an operation that it
 * may not have come to in the recording.  Waits, parked, until another thread
 * waits for it; false: nothing more will happen.
 */
bool sr_heap_run_on_demand(uint32_t owner);

#endif
