/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tickets.h: replays the events of a process's threads one after the other, in the recorded
 * order (shim/core/order.h).
 *
 * A call waits for the ticket of its event, does its work, and passes the ticket on.  Between
 * calls, threads run in parallel.  The tickets replace all real synchronisation of the
 * recorded program.  If the threads were recorded one at a time (record --threads=serial), a
 * thread passes the ticket on at its next call only.
 *
 * When the recorded process ended or was killed, some of its threads were inside calls.
 * These calls left no record, but their threads may have drawn an event number.  No thread
 * uses such a ticket in the replay: its thread is parked at the end of its stream.  So when
 * some threads are parked and all others wait for a ticket, the missing tickets are skipped.
 */
#ifndef SHIM_REPLAY_TICKETS_H
#define SHIM_REPLAY_TICKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/abi/control.h"

/* The control page shows the next ticket, and the ticket that each thread waits for. */
void sr_tickets_start(struct sr_replay_control *control);

/* Returns when the ticket of this event is next.  number: of the calling thread. */
void sr_ticket_wait(uint32_t number, uint64_t event);

/* In a forked child, which has one thread: events that the parent has drawn may be missing. */
void sr_tickets_continue_in_child(void);

/* The event has happened: passes the ticket on. */
void sr_ticket_done(uint64_t event);

/*
 * Where threads run one at a time (shim/core/run_token.h), a thread keeps its ticket until it
 * leaves the program's code.  A thread that preempted the run token from thread `from` in the
 * recording waits for that ticket for a while only, and then runs beside its holder.  It waits
 * for a shorter time than in the recording, so that a spinning holder does not get further
 * than it got there.
 */
void sr_ticket_wait_overtaking(uint32_t number, uint64_t event, uint32_t from);
/*
 * This event happened while another thread held the ticket before it and kept that ticket.
 * Later events wait for this one.
 */
void sr_ticket_amidst(uint32_t number, uint64_t event);
/* The thread passes the event's ticket on, if it still holds it. */
void sr_ticket_over(uint64_t event);

/*
 * Called before a thread is created, and when one has made its last event.  The latter returns
 * the same as sr_tickets_park.
 */
void sr_tickets_add_thread(void);
bool sr_tickets_remove_thread(void);

/*
 * The thread is at the end of its stream; cut: the recorded one went on.  Returns true if nothing more will happen: all threads
 * are at their ends, or, of one whose trace was cut, the others wait for what is behind this end.
 */
bool sr_tickets_park(bool cut);
/* Has that become true since, as others have come to wait? */
bool sr_tickets_nothing_comes(void);

/*
 * Runs of the heap (shim/threads/heap_runs.h).  This run begins when the one before it has made
 * `previous` operations.
 */
void sr_heap_run_take(uint32_t owner, uint32_t run, uint32_t previous);
void sr_heap_run_done(void);

/*
 * The thread is at the end of its stream and about to make a heap operation that it may not
 * have reached in the recording.  Parks the thread until another thread waits for that
 * operation.  Returns false if nothing more will happen.
 */
bool sr_heap_run_on_demand(uint32_t owner);

#endif
