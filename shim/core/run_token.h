/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run_token.h: of the threads of a recorded process one at a time runs the program's code
 * (record --threads=serial).
 *
 * The order of a process's calls is recorded (order.h); what its threads decide between
 * them by plain loads, stores and atomics is not.  So here whoever is in the program's code
 * has the baton, and each number of an event is drawn with it in hand: the order of the
 * events is the order of the pieces of code between calls, which a replay runs one after
 * the other (shim/replay/tickets.h).
 *
 * A thread lends the baton for the length of a real call, which may wait for another
 * thread.  If nobody took it, it goes on, and nothing is drawn that would not be drawn
 * otherwise; else it waits for it, and draws a number.  Who waits for longer than a slice is
 * given it at the holder's next call, whatever that is.
 *
 * A holder that makes no call cannot be waited for without end: it may spin until
 * another thread has stored something.  When it has computed, or slept in a system call that
 * the shim does not see, for SR_BATON_MS, another one snatches the baton.  Then the two run
 * side by side until the first makes a call, where it waits in line; the trace says so.
 *
 * Lock order: the baton comes before all of the shim's locks.  It is waited for at the
 * beginning and the end of an intercepted call, where none is held; within, any may be.
 * What runs with the baton in hand and may wait for a thread that needs it (real calls,
 * pthread_once, the end of the process) lends it.
 *
 * From all threads of the program, but for those that the verbs libraries started.
 */
#ifndef SHIM_CORE_RUN_TOKEN_H
#define SHIM_CORE_RUN_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

/* Program code without a call, of one thread while another one waits: so long, then not alone. */
#define SR_BATON_MS 5

/* The recording under way, or replayed, is one of threads that take turns. */
extern bool sr_serial __attribute__((visibility("hidden")));

enum sr_baton_got {
	SR_BATON_KEPT,     /* nobody had it meanwhile */
	SR_BATON_PASSED,   /* others had it, and gave or lent it */
	SR_BATON_SNATCHED, /* another one had it, which was in the program's code still */
};

/* What a thread has of it.  All zeros: it has not begun. */
struct sr_baton_hold {
	uint64_t word; /* the baton as this thread left it last */
	bool begun;
	int32_t tid;
	uint32_t from; /* the thread that it was snatched from */
	/* How it was had; the caller says KEPT when it has told that to the trace. */
	enum sr_baton_got got;
};

/* The thread is out of the program's code, or back from a real call: returns with the baton. */
void sr_baton_take(struct sr_baton_hold *h, uint32_t number);

/* It went on in the program's code, and has lost it there. */
bool sr_baton_is_lost(const struct sr_baton_hold *h);

/*
 * In the midst of the program's code the shim is about to wait for what comes by itself: until
 * the thread goes on, that is not held against it.  False: it is not the thread's any more.
 */
bool sr_baton_keep(struct sr_baton_hold *h);

/* It goes on in the program's code. */
void sr_baton_go_on(struct sr_baton_hold *h);

enum sr_baton_lending {
	SR_BATON_BRIEFLY,  /* most probably */
	SR_BATON_FOR_LONG, /* who waits for it is woken */
	SR_BATON_AWAY,     /* who waits for it has it, for sure */
};

/* It is about to make a real call. */
void sr_baton_lend(struct sr_baton_hold *h, enum sr_baton_lending how);

/* Did it lend it last? */
bool sr_baton_is_lent(const struct sr_baton_hold *h);

/* The thread ends. */
void sr_baton_drop(struct sr_baton_hold *h);

/* The process ends: nobody waits any more. */
void sr_baton_stop(void);

#endif
