/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.h: the signals that sreplay needs itself, and those of the program.
 *
 * In a recorded or replayed process the shim stores the program's dispositions, and sigaction
 * returns these. Where the program has set a handler, the kernel has the shim's handler. That runs
 * on its own stack (signals/stack.h) and starts the program's handler where the kernel would: on
 * the same stack, with the same mask and context. In a process that is neither recorded nor
 * replayed, the shim installs nothing.
 *
 * Modules claim SIGSEGV (exposed regions, the time-stamp counter), SIGSYS (the system-call trap)
 * and SIGTRAP (single steps of a thread that is asked to stop). A signal that no module accepts gets the program's disposition, including the default
 * action with its core dump. The kernel never has a claimed signal blocked, because it would kill
 * a thread that faults while the signal is blocked. sr_signal_state.hidden says whether the
 * program has blocked it.
 *
 * The program's handlers run at once in the real function of an intercepted call that may block;
 * the calls that they make are recorded like any other. They do not run inside a section (sr_enter
 * and sr_leave, core/thread.h), where the shim may hold locks: they wait until the end of the
 * call. Nor do they run just anywhere in the program's code, where a replay could not run them at
 * the same instruction: they wait for the next call or, in a thread that makes no call for a few
 * milliseconds, for a place that can be recorded (record/places.h). The recording has a record of each (sr_signal_payload). A replay runs the handler
 * at that record and ignores all other signals.
 *
 * Faults are different: the code that causes them causes them again in the replay.
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
 * Does the signal belong to this module, and may the thread continue from *uc? Handlers are
 * called in the order of the claims until one returns true. The signal may come at any
 * instruction of the program or of the shim, so the handler must not take a lock that may
 * be held there.
 *     SIGSEGV: runs on the shim's stack with at least 32 KiB of room. All signals but the
 *     claimed ones are blocked; the handler itself may fault.
 *     SIGTRAP: the same.
 *     SIGSYS: runs on the shim's stack, with the thread's mask. The handler may block, and handlers
 *     of the program may run meanwhile.
 * The handler may change errno.
 */
typedef bool (*sr_signal_handler)(siginfo_t *info, ucontext_t *uc);

/*
 * In a process that is recorded from its start or replayed, claim before main, while there
 * is one thread; otherwise from any thread. -EINVAL: not one of the three signals, or too
 * many claims. -EBUSY: another thread has blocked the signal, and a fault would kill that
 * thread. -ENOSYS: not supported on this architecture.
 */
int sr_signals_claim(int signo, sr_signal_handler handler);

/* Call before the program's main or, if the recording starts later, when it starts. */
struct sr_thread;
void sr_signals_start(bool replay);

/* Call when a jump has set the mask: all claimed signals count as unblocked. */
void sr_signals_unhide(void);

/*
 * The claimed signals that the creator of a thread has blocked; the new thread passes them
 * to sr_signals_thread_begins as `hidden`. An inner thread belongs to a library and takes
 * none of the program's signals.
 */
uint64_t sr_signals_hidden(void);

/*
 * Call around the creation of a thread. The new thread starts with all signals blocked and
 * takes no signal until it has its number. Returns the mask that it gets then.
 */
uint64_t sr_signals_before_create(uint64_t *kernel);
void sr_signals_after_create(uint64_t kernel);
void sr_signals_thread_begins(uint64_t hidden, bool inner);
void sr_signals_thread_opens(uint64_t mask);
/* Call before the thread's last call: no handler runs after it. */
void sr_signals_thread_closes(void);
void sr_signals_thread_ends(void);

/*
 * For a forked child, which is not recorded: gives the program's dispositions, stack and
 * mask back to the kernel and ends all claims.
 */
void sr_signals_forget_in_child(void);

/* For one that is recorded or replayed: only what belongs to the parent ends, timers and waiting signals. */
void sr_signals_continue_in_child(void);

/* The shim's handler that runs does not return, but goes on where another frame says. */
void sr_signals_leave(struct sr_signal_state *s);

/*
 * Before an exec: blocks what the program has blocked, for the new image. After an exec
 * that failed: undoes that.
 */
void sr_signals_before_exec(void);
void sr_signals_after_exec(void);

/* Does what rt_sigaction(2) does, for a trapped system call. -errno. */
long sr_signals_action(int signo, const struct sr_kernel_action *act, struct sr_kernel_action *old);

/* The same for rt_sigprocmask(2). *kernel is the thread's mask, which this function changes. */
long sr_signals_mask(int how, const uint64_t *set, uint64_t *old, uint64_t *kernel);

/*
 * Removes the claimed signals from a mask that the kernel gets for a while (ppoll,
 * sigsuspend). Returns set if there is nothing to remove, else copy.
 */
const sigset_t *sr_signals_filter(const sigset_t *set, sigset_t *copy);

#endif
