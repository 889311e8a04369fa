/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dispositions.h: what the program wants to happen with each signal, and what the kernel
 * is told instead.
 *
 * Handlers read it at any time, in any thread; changes are made under the lock.
 */
#ifndef SHIM_SIGNALS_DISPOSITIONS_H
#define SHIM_SIGNALS_DISPOSITIONS_H

#include "shim/signals/kernel.h"

/* What cannot be blocked. */
#define SR_SIGNALS_NEVER (SR_SIGNAL_BIT(SIGKILL) | SR_SIGNAL_BIT(SIGSTOP))

/* The shim's handler. */
typedef void sr_signal_entry(int signo, siginfo_t *info, void *context);

/* The program's dispositions are those that the process has now; the kernel gets `entry`. */
void sr_dispositions_start(bool replay, sr_signal_entry *entry);

/* In a forked child: the kernel has the program's dispositions again. */
void sr_dispositions_give_back(void);

struct sr_kernel_action sr_disposition_get(int signo);

/* Is it neither the default nor ignored? */
bool sr_action_is_function(const struct sr_kernel_action *a);

/* All signals wait while dispositions change: a handler takes the lock as well. */
void sr_dispositions_lock(uint64_t *mask);
void sr_dispositions_unlock(const uint64_t *mask);

/* With the lock.  0 or -errno. */
long sr_disposition_set(int signo, const struct sr_kernel_action *act);

/* With the lock: the signal is the shim's from now on. */
void sr_dispositions_claim(uint64_t bit);

/* The claimed signals, as a mask. */
uint64_t sr_signals_claimed(void);

/* Does the program have a handler for it? */
bool sr_signals_has_handler(int signo);

/* Its disposition is the default from now on (SA_RESETHAND). */
void sr_signals_reset(int signo);

/* Is the kernel's idea of dispositions another than the program's? */
bool sr_signals_are_shadowed(void);

/* Is this a replay, in which no mask is the kernel's? */
bool sr_signals_are_replayed(void);

/* What libc gives the kernel as sa_restorer, and a program finds there. */
void *sr_signals_libc_restorer(void);

#endif
