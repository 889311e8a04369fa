/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own.h: the interface between the modules of the replay engine.
 *
 *   engine.c    starts and ends a replayed process and its threads
 *   call.c      answers a call from its record
 *   executing.c  compares what the program executes
 *   forking.c    goes on as a child
 *   stream.c    reads a thread's records, and waits for its tickets
 *   handlers.c  runs the program's signal handlers where the recording has them
 *   exposed.c   supplies the values that loads of exposed regions found
 *   ending.c    reports the first difference
 *   places.c    stops a thread where it was stopped between two calls
 *   sums.c      compares sums of checksums
 *   tickets.c   keeps the order of the threads' events
 */
#ifndef SHIM_REPLAY_OWN_H
#define SHIM_REPLAY_OWN_H

#include "logd/trace/exposed_records.h"
#include "replay/abi/control.h"
#include "shim/core/call.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/threads/place.h"

struct sr_image_origin;

struct sr_replay_record {
	uint16_t kind;
	const uint8_t *payload;
	size_t size;
};

/* A waiting loop may have so many different loads. */
#define SR_REPLAY_LOADS 8

/* A thread's stream; sr_thread.stream points to it.  Lies in the shim's heap. */
struct sr_replay_stream {
	size_t available;      /* bytes of the ring that are known to be there, from the next record on */
	size_t unreleased;     /* bytes in front of these, up to the last record's end */
	struct sr_buf whole;   /* a record that came in pieces */
	uint64_t repeats_left; /* of the last record, or calls of `turning` */
	struct sr_replay_record last; /* of a call, in `taken` or `turns` until the next one */
	struct sr_buf taken;
	/* Calls that come in turn.  The next ones are read while the last call is of those before. */
	struct sr_replay_turns turns[2];
	bool reads_second;
	const struct sr_replay_turns *read_turns; /* the next record is the first of these; NULL: it stands for itself */
	const struct sr_replay_turns *turning; /* NULL: the last record comes again */
	uint32_t turn;
	/* Polls that have found nothing, each with the arguments of its record, at their places in the turn. */
	struct {
		uint64_t cq, entries, wc;
		int error;
		bool known;
	} idle[SR_CYCLE_PERIOD];

	/*
	 * If threads run one at a time (shim/core/run_token.h).  has_ticket: the event whose
	 * ticket the thread holds while it runs the program's code.  preempted: the event at
	 * which this thread preempted the run token from thread preempted_from.  0: none.
	 */
	uint64_t has_ticket, preempted;
	uint32_t preempted_from;
	bool parts; /* behind its next call, others run beside it */
	uint64_t stops, stops_behind; /* so many stops behind this call (sr_group_stop) */

	/* The next record is a place, which the thread has not come to yet. */
	bool awaits_place, place_is_readable;
	uint64_t passed_place; /* as often it passed that instruction with these registers, and was not there */
	uint64_t came_by, came_with; /* as often it came to that instruction; with which registers, as a sum */
	struct sr_place place;
	struct sr_place_ids ids; /* of this thread */

	/* The handler of this signal is about to run; 0: none is. */
	uint32_t awaited;
	uint64_t awaited_mask;

	uint32_t passed; /* so many points (sr_engine's passes) lie in front of the next record */

	/* The next record, if it was read already, with the notes in front of it. */
	bool peeked;
	struct sr_replay_record next;
	struct sr_buf notes;
	size_t notes_due; /* while a record is looked at: the bytes of the notes in front of the one that was taken before */
	/* Whose the completions of this poll and of the next one are: that with an even SN, and that with an odd one. */
	struct sr_replay_pick picks[2];
	/* The decoded event of an exposed region; valid until the next record. */
	struct sr_exposed_records regions;
	/* What the call whose record comes next changes of the exposed regions: struct sr_region_payload, in order. */
	struct sr_buf changes;
	bool changing; /* ... is being done: the next record's event is behind the call, and not of these */
	/* Loads from memory that will not change before the next call. */
	struct {
		uint64_t pc, addr;
	} loads[SR_REPLAY_LOADS];
	uint32_t loads_at;
	uint64_t vain, counted_fault;
	uint32_t before_tick; /* loads since the last event; see sr_replay_is_before_tick() */
};

extern struct sr_replay_control *sr_replay_page SR_HIDDEN;

/* ---------------------------------------------------------------- call.c */

/* struct sr_engine's call. */
uint64_t sr_replay_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);
/* Is this record, one of this call, one with these arguments? */
bool sr_replay_has_arguments(struct sr_thread *t, const struct sr_replay_record *r, enum sr_call_number n, uint64_t *a);

/* ----------------------------------------------------------- executing.c */

/* struct sr_engine's forks, continues, leaves_to and becomes_child. */
uint32_t sr_replay_forks(struct sr_thread *t);
void sr_replay_continues(struct sr_thread *t, uint32_t child);
void sr_replay_leaves_to(struct sr_thread *t, int32_t child);
bool sr_replay_becomes_child(void);

/* struct sr_engine's executes. */
bool sr_replay_executes(struct sr_thread *t, struct sr_buf *what, void *site,
			struct sr_image_origin *next);

/* -------------------------------------------------------------- stream.c */

/* Called at the thread's first call.  Sets t->silent if the recording does not have the thread. */
void sr_replay_start_thread(struct sr_thread *t);

/*
 * Reads the record that follows the repeats of the last one into stream->next.  Returns false if
 * there is none.
 */
bool sr_replay_peek(struct sr_thread *t);

/* Takes the record of the current call. */
bool sr_replay_next_call(struct sr_thread *t, struct sr_replay_record *r);
/* The same, without taking it.  What comes may be no call. */
bool sr_replay_peek_call(struct sr_thread *t, struct sr_replay_record *r);
/* At which place of the turn the next call is; 0 if the last record comes again. */
static inline uint32_t sr_replay_next_turn(const struct sr_replay_stream *s)
{
	return s->turning && s->turn + 1 < s->turning->period ? s->turn + 1 : 0;
}

/*
 * await_ticket waits until the event may happen.  After it has happened, let_go passes the ticket
 * on at once; go_on keeps it for the program code that follows, if threads run one at a time.
 */
void sr_replay_await_ticket(struct sr_thread *t, uint64_t event);
void sr_replay_let_go(uint64_t event);
void sr_replay_go_on(struct sr_thread *t, uint64_t event);
/* The call has ended: passes the ticket on if the thread parted behind it. */
void sr_replay_part(struct sr_thread *t);
/* Passes on the ticket that go_on kept. */
void sr_replay_end_ticket(struct sr_thread *t);
/* A stop between two calls is reached (sr_group_stop): other ranks wait for what the thread has done before. */
void sr_replay_note_stop(struct sr_thread *t);
/* Takes the run-token records that come next, at each of which the thread got the token.  False: there was none. */
bool sr_replay_take_run_tokens(struct sr_thread *t);
/* At a call.  The thread has then missed a place that comes next. */
void sr_replay_take_run_tokens_at_call(struct sr_thread *t);
/* The thread is about to operate on the heap: places in front of that, which it has not come to, are missed. */
void sr_replay_miss_places_at_heap(struct sr_thread *t);
/* There it had let others run, as one of them was in such an operation. */
void sr_replay_wait_at_heap(struct sr_thread *t);
/*
 * The thread has let others run between two calls: waits until it ran again.  If it never did, its replay ends here.
 */
void sr_replay_run_again(struct sr_thread *t);
/* struct sr_engine's yields. */
bool sr_replay_yields(struct sr_thread *t, uint64_t accesses, uintptr_t site);
/* Does the next record say that the thread let others run between two of its accesses? */
bool sr_replay_peek_yield(struct sr_thread *t, struct sr_token_payload *p);

/* Waits for the calls of other ranks that the current call depends on. */
void sr_replay_await_group(struct sr_thread *t, uint16_t found, void *site);

/* ---------------------------------------------------------------- sums.c */

void sr_replay_start_sums(void);
/* Is a detailed trace made, and lacks the call's record some of its arguments? */
bool sr_replay_keeps_arguments(enum sr_call_number n);
/* What is encoded in t->buf, with the parts that it lacks.  These are freed. */
void sr_replay_complete_arguments(const struct sr_thread *t, struct sr_buf *parts, struct sr_buf *whole);
/* Keeps them for the command, and frees them. */
void sr_replay_keep_arguments(const struct sr_thread *t, struct sr_buf *whole);
/* If a record of sums comes next, takes it, and compares it with the thread's. */
void sr_replay_take_check(struct sr_thread *t);

/* -------------------------------------------------------------- places.c */

void sr_replay_start_places(void);
/* The next record is a place. */
void sr_replay_await_place(struct sr_thread *t);
/* The thread has made a call, and has not come to the place of the next record. */
void sr_replay_miss_place(struct sr_thread *t);

/* ------------------------------------------------------------ handlers.c */

/* struct sr_engine's signal and stalled. */
bool sr_replay_signal(struct sr_thread *t, struct sr_signal_payload *p);
void sr_replay_stalled(struct sr_thread *t);

/*
 * Run the handlers that were recorded between two calls, in a call (true: the event of its entry
 * has happened), at its end, and in front of a heap operation.
 */
void sr_replay_handlers_between(struct sr_thread *t);
/* Does a handler come next, behind an access to exposed memory?  Which, as a number since the thread's last call. */
bool sr_replay_handler_behind_access(struct sr_thread *t, uint64_t *access);
/* A load had no event of its own: may the program be waiting for the handler that comes next? */
void sr_replay_handler_may_be_awaited(struct sr_thread *t);
bool sr_replay_handler_comes_first(struct sr_thread *t); /* see engine.h */
bool sr_replay_handlers_in_call(struct sr_thread *t, const struct sr_call_desc *d, uint64_t *a);
void sr_replay_handlers_after(struct sr_thread *t);
void sr_replay_handlers_due_at_heap(struct sr_thread *t); /* struct sr_engine's handlers_at_heap */
/* The thread is at a place: does a handler run there?  The other one runs it, when the handler of SIGSEGV that calls it has returned. */
bool sr_replay_handler_comes_at_place(struct sr_thread *t);
void sr_replay_handler_at_place(struct sr_thread *t);
/* It has returned: runs the next one, if one follows there. */
void sr_replay_returned_to_place(struct sr_thread *t);
void sr_replay_handlers_at_heap(struct sr_thread *t);

/* ------------------------------------------------------------- exposed.c */

/* struct sr_exposed_hooks' recorded. */
bool sr_replay_exposed_event(const struct sr_exposed_event *now, struct sr_exposed_event *e);
bool sr_replay_exposed_expected(void);
uint64_t sr_replay_quiet_until(uint64_t fault);
bool sr_replay_awaits_late(void);
/* What only says how many accesses there were in front of the next call. */
void sr_replay_pass_number(struct sr_thread *t);
bool sr_replay_is_before_tick(uint64_t fault, uintptr_t pc, uintptr_t addr);
/*
 * The thread was stopped, and others have changed what it had open: if its next record is of its next access, that one comes to
 * it.  An instruction beside which the replay has a breakpoint is no probe any more.
 */
void sr_replay_suspend_awaited(struct sr_thread *t);

/*
 * Takes the records of regions in front of a call's record.  The replay ends if there is also a
 * load there that the program did not make.
 */
void sr_replay_pass_exposed(struct sr_thread *t, uint16_t found, void *site);
/* The regions change as the records said that were passed; found: the call that does it. */
void sr_replay_change_regions(struct sr_thread *t, uint16_t found);
void sr_replay_change_regions_at_return(struct sr_thread *t, uint16_t found);

/* -------------------------------------------------------------- ending.c */

/* Ends the process with this outcome, unless another thread has set one before. */
void sr_replay_end(enum sr_replay_outcome outcome, int status) __attribute__((noreturn));
void sr_replay_sleep(void) __attribute__((noreturn));

/* Called before the report in the control page is filled in. */
void sr_replay_claim_report(void);
void sr_replay_diverge(struct sr_thread *t, enum sr_replay_outcome outcome, uint16_t expected,
		       uint16_t found) __attribute__((noreturn));
/*
 * What the thread waited for did not come: with this outcome or, where it did not come because the trace of
 * another rank ends early, as that of a killed one does, with SR_REPLAY_CAUSES_END.
 */
void sr_replay_diverge_from_group(struct sr_thread *t, enum sr_replay_outcome outcome, uint16_t found)
    __attribute__((noreturn));
/* The program made another call than the recorded one, or used other arguments (in t->buf). */
void sr_replay_find_instead(struct sr_thread *t, uint16_t expected, uint16_t found, void *site)
    __attribute__((noreturn));
/* output: what it writes that was not recorded so; NULL: nothing is known about that. */
void sr_replay_differ(struct sr_thread *t, const struct sr_replay_record *r,
		      const struct sr_call_head *head, const struct sr_replay_output *output,
		      uint16_t found, void *site) __attribute__((noreturn));

/* How the stream ended whose end this record is: enum sr_replay_outcome. */
uint32_t sr_replay_outcome_of(const struct sr_replay_record *end);
/* The recording has nothing more for this thread. */
void sr_replay_stop(struct sr_thread *t, uint32_t outcome, uint16_t found, void *site)
    __attribute__((noreturn));
void sr_replay_end_of_stream(struct sr_thread *t, const struct sr_replay_record *r, uint16_t found,
			     void *site) __attribute__((noreturn));
/* fatal.c: the call may send the process a signal that ends it. */
void sr_replay_note_sent(const struct sr_thread *t, enum sr_call_number n, const uint64_t *a);
/* Where the recording ends: does not return if that was such a signal. */
void sr_replay_die_by_sent(void);
/* Is it a record of the process's end? */
static inline bool sr_replay_is_end(uint16_t kind)
{
	return kind == SR_REC_EXIT || kind == SR_REC_EXIT_BEGINS;
}
int32_t sr_replay_exit_status(const struct sr_replay_record *r);

/* Ends the replay if a device failed to repeat this call; NULL: none failed. */
void sr_replay_check_transfers(const struct sr_group_call *call);

#endif
