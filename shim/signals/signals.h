/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.h: the signals that sreplay needs itself, and those of the program.
 *
 * In a recorded or replayed process the program's dispositions are a shadow: it
 * is what sigaction tells.  Where the program has a handler, the kernel has the
 * shim's, which runs on a stack of its own (signals/stack.h) and has the program's
 * begin where the kernel would, on the stack, with the mask and the context that
 * it would have.  In a process that is none of sreplay's business nothing is installed.
 *
 * Modules claim SIGSEGV (exposed regions, the time-stamp counter) and SIGSYS (the system-call trap).
 * What no module wants meets the program's disposition, down to the default
 * action, core and all.  A claimed signal is never blocked for the kernel, which
 * would kill a thread that faults then; what the program says of it in masks is
 * kept beside.
 *
 * When the program's handlers run.  At once, in the real function of an intercepted
 * call that may block: what they call is recorded like any other code's.  Not while
 * the shim is at work (sr_enter and sr_leave, thread.h), which holds locks then:
 * they wait until the end of the call.  Nor in the midst of the program's code, where
 * a replay could not have them at the same instruction: they wait for the next call
 * or, in a thread that makes none, for a few milliseconds.  The recording has a record
 * of each (sr_signal_payload), and a replay has the handler run there; no other
 * signal has one run in a replay.
 *
 * Faults are none of these: the code that makes them makes them again in the
 * replay.
 */
#ifndef SHIM_SIGNALS_SIGNALS_H
#define SHIM_SIGNALS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/core/signal_state.h"
#include "shim/signals/dispositions.h"
#include "shim/signals/handlers.h"
#include "shim/signals/stack.h"
#include "shim/signals/waiting.h"

/*
 * Is it this module's, and may the thread go on from *uc?  Called in the order of
 * the claims, until one says yes.  It may come at any instruction, of the
 * program's and of the shim's, inside of an intercepted call and outside, so it
 * takes no lock that is held where it can come.
 *     SIGSEGV: on a stack of the shim's with 32 KiB of room and more.  All signals
 *     are blocked but the claimed ones: the handler may fault itself.
 *     SIGSYS: on the stack of the thread, with its mask: the handler may block, and
 *     handlers of the program may run meanwhile.
 * The handler may change errno.
 */
typedef bool (*sr_signal_handler)(siginfo_t *info, ucontext_t *uc);

/*
 * Best while the process has one thread, before its main, in one that is recorded
 * from its start or replayed; and from any thread later on.  -EINVAL: not one of
 * the two signals, or too many claims; -EBUSY: another thread has it blocked, and
 * a fault would kill it; -ENOSYS: not on this machine.
 */
int sr_signals_claim(int signo, sr_signal_handler handler);

/* Before the program's main or, when it is recorded later, at once. */
struct sr_thread;
void sr_signals_start(bool replay);

/* Nothing of the claimed signals is blocked any more. */
void sr_signals_unhide(void);

/*
 * A thread begins, with what its creator had hidden (sr_signals_hidden), and ends.  In it.  An
 * inner one is a library's: the program's signals go to the program's threads.
 */
uint64_t sr_signals_hidden(void);

/*
 * Around the creation of a thread, which inherits that everything is blocked: until it
 * knows who it is, it takes no signal.  The mask that it is to have.
 */
uint64_t sr_signals_before_create(uint64_t *kernel);
void sr_signals_after_create(uint64_t kernel);
void sr_signals_thread_begins(uint64_t hidden, bool inner);
void sr_signals_thread_opens(uint64_t mask);
/* Its last call is about to be made: nothing comes after it. */
void sr_signals_thread_closes(void);
void sr_signals_thread_ends(void);

/*
 * In a forked child, which is not recorded: the kernel has the program's
 * dispositions, stack and mask again.  Claims are over.
 */
void sr_signals_forget_in_child(void);

/* What the program has blocked is blocked in the one that it executes; and if that fails, not. */
void sr_signals_before_exec(void);
void sr_signals_after_exec(void);

/* rt_sigaction(2) as the kernel has it, for who traps it.  -errno. */
long sr_signals_action(int signo, const struct sr_kernel_action *act, struct sr_kernel_action *old);

/*
 * rt_sigprocmask(2) likewise; it is *kernel, the mask that the thread is going to
 * have, that changes.
 */
long sr_signals_mask(int how, const uint64_t *set, uint64_t *old, uint64_t *kernel);

/* Of a mask that is given to the kernel for a while (ppoll, sigsuspend): without claimed signals.
 * Returns its argument if there is nothing to leave out, else copy. */
const sigset_t *sr_signals_filter(const sigset_t *set, sigset_t *copy);

#endif
