/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waiting.h: signals that came when their handlers could not run, per thread: a queue, and
 * a timer for a thread that computes and makes no call.
 *
 * sr_signals_take() and sr_signals_left() are in core/signal_state.h.
 */
#ifndef SHIM_SIGNALS_WAITING_H
#define SHIM_SIGNALS_WAITING_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/core/signal_state.h"

/* In the thread: room for signals that wait. */
void sr_waiting_thread_begins(struct sr_thread *t);
void sr_waiting_thread_ends(struct sr_thread *t);

/* All signals are blocked.  False: there is no room. */
bool sr_signal_enqueue(struct sr_signal_state *s, int signo, const siginfo_t *info);

/* The shim is not at work: more room, if there is memory. */
void sr_signal_queue_grow(struct sr_signal_state *s);
bool sr_signal_queue_is_full(const struct sr_signal_state *s);

/* The shim is at work, and holds locks. */
void sr_signal_wait_for_section(struct sr_signal_state *s, int signo, siginfo_t *info,
				ucontext_t *uc);

/* It is blocked, as the program sees it, and stays pending. */
void sr_signal_hold(struct sr_signal_state *s, int signo, const siginfo_t *info);

/* Claimed: a thread that computes is stopped from time to time, while signals wait. */
bool sr_signal_tick(siginfo_t *info, ucontext_t *uc);

/* Those that are pending to the program, and not to the kernel; as a mask. */
uint64_t sr_signals_waiting(const struct sr_thread *t);

/* Replay: wake up (sr_engine's stalled) if the thread computes for long. */
void sr_signals_await_stall(struct sr_thread *t, bool on);

#endif
