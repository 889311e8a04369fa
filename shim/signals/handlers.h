/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handlers.h: a handler of the program's is to run: now or later, and where.
 *
 * Of signals.c, which has the dispositions; called in the shim's handler, and by who
 * begins and ends a call.
 */
#ifndef SHIM_SIGNALS_HANDLERS_H
#define SHIM_SIGNALS_HANDLERS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "logd/base/rawsys.h"
#include "shim/signals/frame.h"

#define SR_SIGNALS           64
#define SR_SIGNAL_BIT(signo) (1ull << ((signo)-1))

/* What the code itself brings about. */
#define SR_SIGNAL_FAULTS                                                                           \
	(SR_SIGNAL_BIT(SIGSEGV) | SR_SIGNAL_BIT(SIGBUS) | SR_SIGNAL_BIT(SIGILL) |                  \
	 SR_SIGNAL_BIT(SIGFPE) | SR_SIGNAL_BIT(SIGTRAP) | SR_SIGNAL_BIT(SIGSYS))

struct sr_thread;
struct sr_signal_state;

static inline long sr_kernel_action(int signo, const struct sr_kernel_action *act,
				    struct sr_kernel_action *old)
{
	return sr_syscall(SYS_rt_sigaction, signo, SR_ARG(act), SR_ARG(old), sizeof(uint64_t), 0,
			  0);
}

static inline long sr_kernel_mask(int how, const uint64_t *set, uint64_t *old)
{
	return sr_syscall(SYS_rt_sigprocmask, how, SR_ARG(set), SR_ARG(old), sizeof(uint64_t), 0,
			  0);
}

/* To this thread, with this siginfo. */
static inline long sr_queue_to_self(int signo, siginfo_t *info)
{
	return sr_syscall(SYS_rt_tgsigqueueinfo, sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
			  sr_sys_gettid(), signo, SR_ARG(info), 0, 0);
}

/* What a user stops a replay with. */
bool sr_signal_ends_replay(int signo);

/* Did the thread bring it about itself, by what it will do in a replay as well? */
bool sr_signal_is_fault(int signo, const siginfo_t *info);

/* A signal that the program has a handler for; here is a frame of the shim's handler. */
void sr_handler_for_fault(int signo, siginfo_t *info, ucontext_t *uc,
			  const struct sr_kernel_action *a, uintptr_t here);
void sr_handler_for_sent(int signo, siginfo_t *info, ucontext_t *uc,
			 const struct sr_kernel_action *a, uintptr_t here);

/* The default action. */
void sr_signal_by_default(int signo, siginfo_t *info, ucontext_t *uc);

/* It is blocked, as the program sees it, and stays pending. */
void sr_signal_hold(struct sr_signal_state *s, int signo, const siginfo_t *info);

/* Claimed: a thread that computes is stopped from time to time, while signals wait. */
bool sr_signal_tick(siginfo_t *info, ucontext_t *uc);

/* In the thread: room for signals that wait. */
void sr_handlers_thread_begins(struct sr_thread *t);
void sr_handlers_thread_ends(struct sr_thread *t);

#endif
