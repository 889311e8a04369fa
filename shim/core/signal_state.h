/* SPDX-License-Identifier: BSD-2-Clause */
/* signal_state.h: each thread's state for signals; shim/signals uses it. */
#ifndef SHIM_CORE_SIGNAL_STATE_H
#define SHIM_CORE_SIGNAL_STATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct sr_saved_buffer;
struct sr_signal_queue;
struct sr_thread;

/* The signals that modules of the shim can claim (shim/signals/signals.h), and the index of one; -1: none of them. */
#define SR_CLAIMABLE 3
static const int sr_claimable_signals[SR_CLAIMABLE] = {SIGSEGV, SIGSYS, SIGTRAP};

static inline int sr_claimable_index(int signo)
{
	for (int i = 0; i < SR_CLAIMABLE; i++)
		if (sr_claimable_signals[i] == signo)
			return i;
	return -1;
}

/* Alternate signal stacks (signals/stack.h). All zeros: the kernel has the program's stack. */
struct sr_signal_stack {
	char *own;        /* the shim's stacks: lowest address; NULL: none */
	uintptr_t calls;  /* as many stacks for operations (core/call_stack.h): lowest address */
	uint32_t current; /* which of them the kernel has, and the next operation */
	uint32_t guarded; /* so many of them have a page below that nobody may touch */
	uintptr_t end;    /* of the program's stack, while the thread is on one of the shim's */
	stack_t program;  /* valid if own is set */
};

/* Of a thread that may be cancelled at any instruction (signals/cancellation.h). */
struct sr_cancellation {
	bool anywhere;
	int32_t tid;
	uintptr_t id; /* its pthread_t */
	struct sr_thread *next;
};

struct sr_signal_state {
	uint64_t hidden; /* claimed signals that the program has blocked */
	uint64_t held;   /* those of them that were sent meanwhile */
	siginfo_t held_info[SR_CLAIMABLE];
	struct sr_signal_stack stack;

	/* The shim's handler that runs: is it the one of a trapped call, which may block?  And what it has interrupted: was that one? */
	bool trapped, trapped_before;

	/* Waiting signals, whose handlers will run at the next place that can be recorded. */
	volatile bool waiting;
	bool due_at_heap; /* replay: the next record is a signal, perhaps in front of a heap operation */
	struct sr_signal_queue *queue;
	/* The queue overflowed: the kernel keeps the other signals, blocked. */
	bool overflowed;
	uint64_t overflow_mask;
	/* Waiting signals are being delivered: an enum sr_signal_place; 0: they are not. */
	volatile uint8_t taking;
	/* Signals that must not wait any longer; those at a place that is in the trace. */
	uint64_t at_once, at_place;
	bool same_place; /* ... as the signal before */
	/* So many calls had the thread made when a signal last came to it in computing code; computed: one did. */
	uint64_t computed_sn;
	bool computed;
	bool stepped; /* it has been stepped to a place, or on the way to one */
	uint32_t searches; /* for a place for those that wait, in vain */
	int64_t cpu_time; /* the thread's CPU time when the timer was set */
	uint32_t ticks;
	uint32_t missed_ticks; /* which found the thread in a section */
	uint32_t nested_ticks; /* so many came one within the handler of the other */
	int timer;
	bool has_timer, timer_set;

	/* The thread is in the real function of a call that may block. */
	volatile bool interruptible;
	uint64_t recorded_mask; /* replay: the mask of the code that the handler interrupted */
	uint64_t call_entry;    /* number of the entry event of the current call */
	uintptr_t base;         /* the frame of the last call or heap operation, which is where it is in the other mode */
	uint64_t frame;         /* where the last of these found its stack pointer */
	uint32_t handlers;      /* handlers that have begun and not returned (some never will) */
	struct sr_saved_buffer *saved;
	uint32_t next_saved;

	struct sr_cancellation cancellation;

	/* How often a signal that the shim sent itself has interrupted the thread. */
	volatile uint32_t own;
};

/* shim/signals implements the following; called where a section ends, only if signals wait. */

/* Runs the handlers of the waiting signals now; place is an enum sr_signal_place. */
void sr_signals_take(struct sr_thread *t, uint8_t place);

/* A section that was not a call has ended, and signals wait. */
void sr_signals_left(struct sr_thread *t);

/*
 * A function that is no call of the trace returns to the program, which may make nothing but such calls: ticks find the thread
 * in their sections only.  Then the handlers of what waits run here.
 */
void sr_signals_missed(struct sr_thread *t);
/* In a replay: its handler is due, behind the access that it makes. */
void sr_signals_interrupt(struct sr_thread *t);

#endif
