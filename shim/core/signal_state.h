/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signal_state.h: what each thread keeps about signals, in sr_thread; shim/signals works
 * on it.
 */
#ifndef SHIM_CORE_SIGNAL_STATE_H
#define SHIM_CORE_SIGNAL_STATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct sr_saved_buffer;
struct sr_signal_queue;
struct sr_thread;

/* Alternate signal stacks (signals/stack.h).  Zeroed: the kernel has the program's. */
struct sr_signal_stack {
	char *own;       /* lowest address; NULL: none */
	stack_t program; /* if own */
};

struct sr_signal_state {
	uint64_t hidden; /* claimed signals that the program has blocked */
	uint64_t held;   /* of these, such as were sent meanwhile, and with what */
	siginfo_t held_info[2];
	struct sr_signal_stack stack;

	/* Signals that wait: their handlers are to run at the next place of a record. */
	volatile bool waiting;
	struct sr_signal_queue *queue;
	/* There were too many: the kernel has the rest, blocked. */
	bool overflowed;
	uint64_t overflow_mask;
	/* They come now: an enum sr_signal_place, 0: they do not. */
	volatile uint8_t taking;
	/* These are not to wait any longer. */
	uint64_t at_once;
	int64_t cpu_time; /* of the thread, when it was set */
	uint32_t ticks;
	int timer;
	bool has_timer, timer_set;

	/* In the real function of a call that may block. */
	volatile bool interruptible;
	uint64_t recorded_mask; /* replay: of the code that the handler interrupted */
	uint64_t call_entry;    /* number of the event at the entry of the call under way */
	uint32_t handlers;      /* that have begun and not returned, or never will */
	struct sr_saved_buffer *saved;
	uint32_t next_saved;
};

/* Implemented in shim/signals; called where a section ends, only if signals wait. */

/* The handlers of the signals that wait run now; the place is an enum sr_signal_place. */
void sr_signals_take(struct sr_thread *t, uint8_t place);

/* The shim's work is done, but that was no call; signals wait. */
void sr_signals_left(struct sr_thread *t);

#endif
