/* SPDX-License-Identifier: BSD-2-Clause */
/* kernel.h: the kernel's signal interface, past libc. */
#ifndef SHIM_SIGNALS_KERNEL_H
#define SHIM_SIGNALS_KERNEL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/base/rawsys.h"
#include "shim/signals/frame.h"

#define SR_SIGNALS           64
#define SR_SIGNAL_BIT(signo) (1ull << ((signo)-1))

/* Signals that the code itself can cause. */
#define SR_SIGNAL_FAULTS                                                                           \
	(SR_SIGNAL_BIT(SIGSEGV) | SR_SIGNAL_BIT(SIGBUS) | SR_SIGNAL_BIT(SIGILL) |                  \
	 SR_SIGNAL_BIT(SIGFPE) | SR_SIGNAL_BIT(SIGTRAP) | SR_SIGNAL_BIT(SIGSYS))

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

/* Sends the signal to this thread, with this siginfo. */
static inline long sr_queue_to_self(int signo, siginfo_t *info)
{
	return sr_syscall(SYS_rt_tgsigqueueinfo, sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
			  sr_sys_gettid(), signo, SR_ARG(info), 0, 0);
}

/* Signals with which a user stops a replay. */
static inline bool sr_signal_ends_replay(int signo)
{
	return signo == SIGINT || signo == SIGTERM || signo == SIGQUIT || signo == SIGHUP;
}

#endif
