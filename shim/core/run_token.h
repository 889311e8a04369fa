/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run_token.h: one thread at a time runs the program's code (record --threads=serial).
 *
 * The order of a process's calls is always recorded (order.h). What its threads decide
 * among themselves by plain loads, stores and atomics is not. With this setting, the thread
 * that runs the program's code holds the run token, and draws every event number while
 * holding it. So the order of the events is the order of the pieces of code between calls,
 * and a replay runs these pieces one after the other (shim/replay/tickets.h).
 *
 * A thread releases the run token for the length of a real call, which may wait for another
 * thread. If no other thread took the token, the thread continues and draws no additional
 * number; otherwise it waits for the token and draws one. A thread that has waited longer
 * than a slice gets the token at the holder's next call, whatever that call is.
 *
 * A thread cannot wait without end for a holder that makes no call: the holder may be
 * spinning until another thread stores something. When the holder has computed for some
 * milliseconds, it is asked to stop, and does so at a place in its code that the trace
 * describes (shim/record/places.h). If it cannot, or has slept in a system call that the
 * shim does not see, another thread preempts the token. Then both run at the same time
 * until the first one makes a call, where it waits in line; the trace says so.
 *
 * Where threads compute rather than wait (phases.h), a thread parts: it puts the token down and
 * goes on all the same, until its next call, where it waits in line.
 *
 * Lock order: the run token comes before all locks of the shim. A thread waits for it at
 * the beginning and the end of an intercepted call, where it holds no lock. Code that holds
 * the token and may wait for a thread that needs it (real calls, pthread_once, the end of
 * the process) releases it.
 *
 * All threads of the program call this, but not those that the verbs libraries started.
 */
#ifndef SHIM_CORE_RUN_TOKEN_H
#define SHIM_CORE_RUN_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"

/* How long one thread may run program code without a call while another one waits; about that. */
#define SR_TOKEN_MS 5

/* True if the threads of this recording, or of the replayed one, run one at a time. */
extern bool sr_serial SR_HIDDEN;

enum sr_token_got {
	SR_TOKEN_KEPT,     /* no other thread had it meanwhile */
	SR_TOKEN_PASSED,   /* others had it, and gave or released it */
	SR_TOKEN_PREEMPTED, /* another one had it, and was still in the program's code */
};

/* A thread's state. All zeros: the thread has not begun. */
struct sr_token_hold {
	uint64_t word; /* the run token's value when this thread last changed it */
	bool begun;
	int32_t tid;
	uintptr_t site;    /* of its last call; 0: it has made none */
	int64_t parted_at; /* its CPU time when it parted; 0: it has not */
	int64_t stopping_at; /* ... and when it began to stop */
	uint32_t from; /* the thread that the token was preempted from */
	uint32_t vain; /* calls in a row that found nothing, of those that may */
	/* How the thread got it; the caller sets KEPT once that is in the trace. */
	enum sr_token_got got;
};

/* Takes the token, when the thread leaves the program's code or returns from a real call. */
void sr_token_take(struct sr_token_hold *h, uint32_t number);

/* These are asked where the vector registers hold the program's values. */
#define SR_TOKEN_ASKED __attribute__((target("general-regs-only")))

/* Does another thread wait for the token, or has one waited longer than a slice? */
bool sr_token_is_wanted(void) SR_TOKEN_ASKED;
bool sr_token_is_due(void) SR_TOKEN_ASKED;

/* Did another thread preempt the token while this one ran the program's code? */
SR_TOKEN_ASKED bool sr_token_is_lost(const struct sr_token_hold *h);

/*
 * The shim interrupts the program's code to wait for something that will surely come. Until
 * sr_token_go_on(), no other thread preempts the token. False if another thread already has.
 */
bool sr_token_keep(struct sr_token_hold *h) SR_TOKEN_ASKED;

/* The same, and false if another thread waits for the token, this one has parted, or the process ends. */
bool sr_token_keep_unwanted(struct sr_token_hold *h) SR_TOKEN_ASKED;

void sr_token_go_on(struct sr_token_hold *h) SR_TOKEN_ASKED;

/*
 * Instead of going on with the token, the thread may part: it is behind a call where threads compute.
 */
bool sr_token_may_part(const struct sr_token_hold *h);
void sr_token_part(struct sr_token_hold *h);
bool sr_token_others_parted(void);
/*
 * A thread leaves the program's code: if it had parted, and no other one ran the program's code meanwhile, it has the token
 * again.  Else false.
 */
bool sr_token_meets_again(struct sr_token_hold *h);

/*
 * Asks this thread, which has the token and computes, to give it away at a place that can be recorded. NULL: no thread
 * can. The thread itself asks first whether it still has the token and somebody waits for it.
 */
extern void (*sr_token_stop_holder)(int32_t tid) SR_HIDDEN;
bool sr_token_is_asked_for(const struct sr_token_hold *h);
/*
 * It has begun to look for such a place, or has ended that. It is not asked meanwhile, and its time does not count: on a slow
 * machine its steps take longer than what it computes.
 */
void sr_token_begin_stop(struct sr_token_hold *h);
void sr_token_end_stop(struct sr_token_hold *h);
/* It may be able to soon, without a call: waiters go on asking, for some seconds of its time. */
void sr_token_ask_later(const struct sr_token_hold *h);
/* It cannot, until its next call: another thread preempts it. */
void sr_token_refuse_to_stop(const struct sr_token_hold *h);
/* It did, in a loop that only waits (spun), or that computes. */
void sr_token_adapt_slice(bool spun);

enum sr_token_releasing {
	SR_TOKEN_BRIEFLY,  /* the call will very probably not wait */
	SR_TOKEN_FOR_LONG, /* the first waiting thread is woken */
	SR_TOKEN_AWAY,     /* the first waiting thread always gets the token */
};

/* Releases the token; the thread is about to make a real call. */
void sr_token_release(struct sr_token_hold *h, enum sr_token_releasing how);

/* Is the thread in a real call, for which it released the token? */
bool sr_token_is_released(const struct sr_token_hold *h);

void sr_token_drop(struct sr_token_hold *h);

/*
 * This thread ends the process, and needs no token from here on.  Others that want it, now or later, wait for that end: what they
 * did without it would come at another time in a replay, and their calls are recorded no more.
 */
void sr_token_stop(const struct sr_token_hold *h);

/* In a forked child, whose only thread has the token: nobody waits for it. */
void sr_token_forget_others(struct sr_token_hold *h);

#endif
