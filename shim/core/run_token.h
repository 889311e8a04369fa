/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run_token.h: of the threads of a recorded process one at a time runs the program's code
 * (record --threads=serial).
 *
 * The order of a process's calls is recorded (order.h); what its threads decide between
 * them by plain loads, stores and atomics is not.  So here whoever is in the program's code
 * has the run token, and each number of an event is drawn with it in hand: the order of the
 * events is the order of the pieces of code between calls, which a replay runs one after
 * the other (shim/replay/tickets.h).
 *
 * A thread lends the run token for the length of a real call, which may wait for another
 * thread.  If nobody took it, it goes on, and nothing is drawn that would not be drawn
 * otherwise; else it waits for it, and draws a number.  Who waits for longer than a slice is
 * given it at the holder's next call, whatever that is.
 *
 * A holder that makes no call cannot be waited for without end: it may spin until
 * another thread has stored something.  When it has computed, or slept in a system call that
 * the shim does not see, for SR_TOKEN_MS, another one preempts the run token.  Then the two run
 * side by side until the first makes a call, where it waits in line; the trace says so.
 *
 * Lock order: the run token comes before all of the shim's locks.  It is waited for at the
 * beginning and the end of an intercepted call, where none is held; within, any may be.
 * What runs with the run token in hand and may wait for a thread that needs it (real calls,
 * pthread_once, the end of the process) lends it.
 *
 * From all threads of the program, but for those that the verbs libraries started.
 */
#ifndef SHIM_CORE_RUN_TOKEN_H
#define SHIM_CORE_RUN_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"

/* Program code without a call, of one thread while another one waits: so long, then not alone. */
#define SR_TOKEN_MS 5

/* The recording under way, or replayed, is one of threads that take turns. */
extern bool sr_serial SR_HIDDEN;

enum sr_token_got {
	SR_TOKEN_KEPT,     /* nobody had it meanwhile */
	SR_TOKEN_PASSED,   /* others had it, and gave or lent it */
	SR_TOKEN_PREEMPTED, /* another one had it, which was in the program's code still */
};

/* What a thread has of it.  All zeros: it has not begun. */
struct sr_token_hold {
	uint64_t word; /* the run token as this thread left it last */
	bool begun;
	int32_t tid;
	uint32_t from; /* the thread that it was preempted from */
	/* How it was had; the caller says KEPT when it has told that to the trace. */
	enum sr_token_got got;
};

/* The thread is out of the program's code, or back from a real call: returns with the run token. */
void sr_token_take(struct sr_token_hold *h, uint32_t number);

/* It went on in the program's code, and has lost it there. */
bool sr_token_is_lost(const struct sr_token_hold *h);

/*
 * In the midst of the program's code the shim is about to wait for what comes by itself: until
 * the thread goes on, that is not held against it.  False: it is not the thread's any more.
 */
bool sr_token_keep(struct sr_token_hold *h);

/* It goes on in the program's code. */
void sr_token_go_on(struct sr_token_hold *h);

enum sr_token_releasing {
	SR_TOKEN_BRIEFLY,  /* most probably */
	SR_TOKEN_FOR_LONG, /* who waits for it is woken */
	SR_TOKEN_AWAY,     /* who waits for it has it, for sure */
};

/* It is about to make a real call. */
void sr_token_release(struct sr_token_hold *h, enum sr_token_releasing how);

/* Did it lend it last? */
bool sr_token_is_released(const struct sr_token_hold *h);

/* The thread ends. */
void sr_token_drop(struct sr_token_hold *h);

/* The process ends: nobody waits any more. */
void sr_token_stop(void);

#endif
