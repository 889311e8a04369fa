/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handlers.h: runs the program's handlers, now or later. The shim's handler in signals.c calls it.
 */
#ifndef SHIM_SIGNALS_HANDLERS_H
#define SHIM_SIGNALS_HANDLERS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/signals/frame.h"

struct sr_signal_state;
struct sr_thread;

/* Has the thread caused the signal itself, by something that it will also do in a replay? */
bool sr_signal_is_fault(int signo, const siginfo_t *info);

/* Handles a signal for which the program has a handler; here is a frame of the shim's handler. */
void sr_handler_for_fault(int signo, siginfo_t *info, ucontext_t *uc,
			  const struct sr_kernel_action *a, uintptr_t here);
void sr_handler_for_sent(int signo, siginfo_t *info, ucontext_t *uc,
			 const struct sr_kernel_action *a, uintptr_t here);

void sr_signal_by_default(int signo, siginfo_t *info, ucontext_t *uc);

/* Replay: runs the handler now, in this thread, with this siginfo. */
void sr_signals_replay(int signo, const siginfo_t *info);

void sr_handlers_thread_ends(struct sr_thread *t);

#endif
