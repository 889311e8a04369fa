/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dispositions.h: stores the dispositions that the program set, and gives the kernel others
 * instead.
 *
 * Handlers read the table at any time, in any thread; writers hold the lock.
 */
#ifndef SHIM_SIGNALS_DISPOSITIONS_H
#define SHIM_SIGNALS_DISPOSITIONS_H

#include "shim/signals/kernel.h"

/* Signals that cannot be blocked. */
#define SR_SIGNALS_NEVER (SR_SIGNAL_BIT(SIGKILL) | SR_SIGNAL_BIT(SIGSTOP))

/* The shim's handler. */
typedef void sr_signal_entry(int signo, siginfo_t *info, void *context);

/* Takes the process's dispositions as the program's, and gives the kernel `entry` where needed. */
void sr_dispositions_start(bool replay, sr_signal_entry *entry);

/* For a forked child: gives the program's dispositions back to the kernel. */
void sr_dispositions_give_back(void);

struct sr_kernel_action sr_disposition_get(int signo);

/* Is the action a handler, neither the default action nor ignored? */
bool sr_action_is_function(const struct sr_kernel_action *a);

/* Blocks all signals while dispositions change, because a handler takes the lock as well. */
void sr_dispositions_lock(uint64_t *mask);
void sr_dispositions_unlock(const uint64_t *mask);

/* The caller holds the lock. 0 or -errno. */
long sr_disposition_set(int signo, const struct sr_kernel_action *act);

/* A signal that libc keeps to itself becomes one of the program's with this action.  *before: what the kernel had. */
void sr_disposition_take(int signo, const struct sr_kernel_action *action, struct sr_kernel_action *before);

/* Makes the signal the shim's from now on. The caller holds the lock. */
void sr_dispositions_claim(uint64_t bit);

/* The claimed signals, as a mask. */
uint64_t sr_signals_claimed(void);

/* Those of them that the kernel blocks while the shim's handler begins, since they may be sent to the program. */
uint64_t sr_signals_deferred(void);

/* Does the program have a handler for the signal? */
bool sr_signals_has_handler(int signo);

/* Sets the signal's disposition to the default (SA_RESETHAND). */
void sr_signals_reset(int signo);

/* May the kernel's dispositions differ from the program's? */
bool sr_signals_are_shadowed(void);

/* Is this a replay? There the kernel's mask is not the program's. */
bool sr_signals_are_replayed(void);

/* The sa_restorer that libc gives the kernel, and that a program finds in a disposition. */
void *sr_signals_libc_restorer(void);

#endif
