/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waiting.h: signals that came when their handlers could not run. Each thread has a queue,
 * and a timer in case it computes without making a call.
 *
 * sr_signals_take() and sr_signals_left() are in core/signal_state.h.
 */
#ifndef SHIM_SIGNALS_WAITING_H
#define SHIM_SIGNALS_WAITING_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "logd/base/compiler.h"
#include "shim/core/signal_state.h"

/* Call in the thread: allocates and frees the queue. */
void sr_waiting_thread_begins(struct sr_thread *t);
void sr_waiting_thread_ends(struct sr_thread *t);

/* The caller has blocked all signals. False if the queue is full. */
bool sr_signal_enqueue(struct sr_signal_state *s, int signo, const siginfo_t *info);

/* Enlarges the queue if there is memory. Call outside sections only. */
void sr_signal_queue_grow(struct sr_signal_state *s);
void sr_signal_queue_empty(struct sr_signal_state *s);
bool sr_signal_queue_is_full(const struct sr_signal_state *s);

/* For a signal within a section, where the shim may hold locks. */
void sr_signal_wait_for_section(struct sr_signal_state *s, int signo, siginfo_t *info,
				ucontext_t *uc);

/* The program has blocked this claimed signal, or it has interrupted the shim's handler: keeps it pending. */
void sr_signal_hold(struct sr_signal_state *s, int signo, const siginfo_t *info);

/*
 * The shim's handler is about to return to the program: the kernel delivers there what was held and is not blocked any more.
 * Until then no memory may be accessed that may fault.
 */
void sr_signals_release_at_return(struct sr_signal_state *s);

/*
 * Recording: from uc on, the thread is to look for a place in the program's code that a replay finds again, and to deliver
 * its waiting signals there (record/places.h).  False: it cannot, or there is none.  NULL: no thread can.
 */
extern bool (*sr_signals_find_place)(struct sr_thread *t, ucontext_t *uc) SR_HIDDEN;

/* A search has found none.  Another one begins a little later, but not for ever: then they are delivered anywhere. */
void sr_signals_search_again(struct sr_thread *t);

/* They are delivered when the thread goes on at uc, which is no such place. */
void sr_signals_deliver(struct sr_thread *t, ucontext_t *uc);
/*
 * uc is one, and the first of them that its code does not block is delivered.  Those behind it follow when its handler has returned to the
 * place: in the handler, where they would come now, each would need a place of its own.
 */
void sr_signals_deliver_next(struct sr_thread *t, const ucontext_t *uc, bool same_place);

/*
 * Signals wait, and the thread goes on at uc, in the program's code: it looks for a place at once if it has computed since
 * its last signal, else when it has made no call for some milliseconds.
 */
void sr_signals_await_place(struct sr_thread *t, ucontext_t *uc);
/* The same, and it has. */
void sr_signals_compute(struct sr_thread *t, ucontext_t *uc);

/* Recording: behind a probe's stub, where a tick had found the thread, it computes at uc. */
void sr_signals_interrupted(struct sr_thread *t, ucontext_t *uc);

/* A claim of SIGSEGV: the timer that interrupts a computing thread while signals wait. */
bool sr_signal_tick(siginfo_t *info, ucontext_t *uc);

/* The signals that are pending for the program but not in the kernel, as a mask. */
uint64_t sr_signals_waiting(const struct sr_thread *t);

/* Replay: reports (sr_engine's stalled) if the thread computes for long. */
void sr_signals_await_stall(struct sr_thread *t, bool on);

#endif
