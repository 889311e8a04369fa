/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own.h: what the modules of the replay engine share.
 *
 *   engine.c    start and end of a replayed process and of its threads
 *   call.c      a call is answered from its record
 *   stream.c    a thread's records, and when it may go on
 *   handlers.c  the program's signal handlers run where the recording has them
 *   exposed.c   what loads of exposed regions found
 *   ending.c    the report of the first difference
 *   tickets.c   the order of the threads' events
 */
#ifndef SHIM_REPLAY_OWN_H
#define SHIM_REPLAY_OWN_H

#include "logd/trace/exposed_records.h"
#include "replay/abi/control.h"
#include "shim/core/call.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"

struct sr_replay_record {
	uint16_t kind;
	const uint8_t *payload;
	size_t size;
};

/* So many loads of a loop that waits are told apart. */
#define SR_REPLAY_LOADS 8

/* A thread's stream; in the shim's heap, behind sr_thread.stream. */
struct sr_replay_stream {
	size_t unreleased;     /* bytes of the ring that the last record occupies */
	struct sr_buf whole;   /* a record that came in pieces */
	uint64_t repeats_left; /* of the last call */
	uint16_t last_kind;
	struct sr_buf last;

	/*
	 * Of threads that take turns (shim/core/run_token.h): the event whose ticket the thread
	 * holds while it runs the program's code; and one that did not wait for the thread
	 * that held the ticket before.  0: none.
	 */
	uint64_t has_ticket, preempted;
	uint32_t preempted_from;

	/* The handler of this signal is about to run; 0: of none. */
	uint32_t awaited;
	uint64_t awaited_mask;

	/* The record after those, if it was read already, with the notes in front of it. */
	bool peeked;
	struct sr_replay_record next;
	struct sr_buf notes;
	/* What an event of an exposed region was decoded from; valid until the next record.
	 */
	struct sr_exposed_records regions;
	/* Looks at memory that nothing will change any more before the next call. */
	struct {
		uint64_t pc, addr;
	} loads[SR_REPLAY_LOADS];
	uint32_t loads_at;
	uint64_t vain;
};

extern struct sr_replay_control *sr_replay_page SR_HIDDEN;

/* ---------------------------------------------------------------- call.c */

/* struct sr_engine's call. */
uint64_t sr_replay_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

/* -------------------------------------------------------------- stream.c */

/* The thread's first call.  t->silent: the recording does not have the thread. */
void sr_replay_start_thread(struct sr_thread *t);

/* stream->next is the record behind the repeats of the last one; false: there is none. */
bool sr_replay_peek(struct sr_thread *t);

/* The record of the call that is under way. */
bool sr_replay_next_call(struct sr_thread *t, struct sr_replay_record *r);

/* Until the event may happen; then that it has, without and with what the program does behind it.
 */
void sr_replay_await_ticket(struct sr_thread *t, uint64_t event);
void sr_replay_let_go(uint64_t event);
void sr_replay_go_on(struct sr_thread *t, uint64_t event);
/* What the program did behind its last event is over. */
void sr_replay_end_ticket(struct sr_thread *t);
/* The thread was in the program's code from these events on. */
void sr_replay_take_run_tokens(struct sr_thread *t);

/* Until the other ranks are where they were when the call returned. */
void sr_replay_await_group(struct sr_thread *t, uint16_t found, void *site);

/* ------------------------------------------------------------ handlers.c */

/* struct sr_engine's signal and stalled. */
bool sr_replay_signal(struct sr_thread *t, struct sr_signal_payload *p);
void sr_replay_stalled(struct sr_thread *t);

/* Handlers that ran between two calls, in a call (true: its entry is over), at its end, and in
 * front of an operation on the heap. */
void sr_replay_handlers_between(struct sr_thread *t);
bool sr_replay_handlers_in_call(struct sr_thread *t);
void sr_replay_handlers_after(struct sr_thread *t);
void sr_replay_handlers_at_heap(struct sr_thread *t);

/* ------------------------------------------------------------- exposed.c */

/* struct sr_exposed_hooks' recorded. */
bool sr_replay_exposed_event(const struct sr_exposed_event *now, struct sr_exposed_event *e);

/* In front of a call's record: regions that it makes, and no load that was to come before. */
void sr_replay_pass_exposed(struct sr_thread *t, uint16_t found, void *site);

/* -------------------------------------------------------------- ending.c */

/* The process ends with this outcome, unless another thread has ended it. */
void sr_replay_end(enum sr_replay_outcome outcome, int status) __attribute__((noreturn));
void sr_replay_sleep(void) __attribute__((noreturn));

/* Before the control page's report is filled in. */
void sr_replay_claim_report(void);
void sr_replay_diverge(struct sr_thread *t, enum sr_replay_outcome outcome, uint16_t expected,
		       uint16_t found) __attribute__((noreturn));
/* Another call than the recorded one, or other arguments, which are in t->buf. */
void sr_replay_find_instead(struct sr_thread *t, uint16_t expected, uint16_t found, void *site)
    __attribute__((noreturn));
void sr_replay_differ(struct sr_thread *t, const struct sr_replay_record *r,
		      const struct sr_call_head *head, uint16_t found, void *site)
    __attribute__((noreturn));

/* The recording has nothing more for this thread. */
void sr_replay_stop(struct sr_thread *t, uint32_t outcome, uint16_t found, void *site)
    __attribute__((noreturn));
void sr_replay_end_of_stream(struct sr_thread *t, const struct sr_replay_record *r, uint16_t found,
			     void *site) __attribute__((noreturn));
int32_t sr_replay_exit_status(const struct sr_replay_record *r);

/* Ends the replay if a device did not do again what this call did; NULL: it did all. */
void sr_replay_check_transfers(const struct sr_group_call *call);

#endif
