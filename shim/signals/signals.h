/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.h: the signals that sreplay needs itself, and those of the program.
 *
 * In a recorded or replayed process the shim keeps the program's dispositions, and sigaction
 * returns these.  Where the program has a handler, the kernel has the shim's.  That runs on a
 * stack of its own (signals/stack.h) and starts the program's handler where the kernel would:
 * on the same stack, with the same mask and context.  In a process that is neither recorded
 * nor replayed, nothing is installed.
 *
 * Modules claim SIGSEGV (exposed regions, the time-stamp counter) and SIGSYS (the system-call
 * trap).  A signal that no module wants gets the program's disposition, down to the default
 * action with its core.  The kernel never has a claimed signal blocked: it would kill a thread
 * that faults then.  Whether the program has blocked it is kept in sr_signal_state.hidden.
 *
 * The program's handlers run at once in the real function of an intercepted call that may
 * block; what they call is recorded like any other call.  They do not run while the shim is at
 * work and holds locks (sr_enter and sr_leave, core/thread.h): they wait until the end of the
 * call.  Nor do they run in the middle of the program's code, where a replay could not run
 * them at the same instruction: they wait for the next call or, in a thread that makes none,
 * for a few milliseconds.  The recording has a record of each (sr_signal_payload).  A replay
 * runs the handler there, and at no other signal.
 *
 * Faults are different: the code that makes them makes them again in the replay.
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
 * Is the signal this module's, and may the thread go on from *uc?  Handlers are called in the
 * order of the claims until one returns true.  The signal may come at any instruction of the
 * program or of the shim, so the handler takes no lock that may be held where it comes.
 *     SIGSEGV: runs on a stack of the shim's with at least 32 KiB of room.  All signals but
 *     the claimed ones are blocked; the handler may fault itself.
 *     SIGSYS: runs on the thread's stack, with its mask.  The handler may block, and handlers
 *     of the program may run meanwhile.
 * The handler may change errno.
 */
typedef bool (*sr_signal_handler)(siginfo_t *info, ucontext_t *uc);

/*
 * In a process that is recorded from its start or replayed: before main, while there is one
 * thread; otherwise from any thread.  -EINVAL: not one of the two signals, or too many claims.
 * -EBUSY: another thread has it blocked, and a fault would kill it.  -ENOSYS: not on this
 * machine.
 */
int sr_signals_claim(int signo, sr_signal_handler handler);

/* Before the program's main; or later, when the recording starts. */
struct sr_thread;
void sr_signals_start(bool replay);

/* The thread has unblocked all claimed signals. */
void sr_signals_unhide(void);

/*
 * A thread begins, in it: `hidden` is what its creator has hidden (sr_signals_hidden).  An
 * inner thread is a library's, and takes none of the program's signals.
 */
uint64_t sr_signals_hidden(void);

/*
 * Around the creation of a thread.  The new thread inherits that everything is blocked, and
 * takes no signal until it has its number.  Returns the mask that it is to have then.
 */
uint64_t sr_signals_before_create(uint64_t *kernel);
void sr_signals_after_create(uint64_t kernel);
void sr_signals_thread_begins(uint64_t hidden, bool inner);
void sr_signals_thread_opens(uint64_t mask);
/* The thread is about to make its last call: no signal comes after it. */
void sr_signals_thread_closes(void);
void sr_signals_thread_ends(void);

/*
 * In a forked child, which is not recorded: the kernel gets the program's dispositions, stack
 * and mask back, and all claims end.
 */
void sr_signals_forget_in_child(void);

/* Before an exec: the new image has blocked what the program has; after one that failed: not. */
void sr_signals_before_exec(void);
void sr_signals_after_exec(void);

/* rt_sigaction(2), for a trapped system call.  -errno. */
long sr_signals_action(int signo, const struct sr_kernel_action *act, struct sr_kernel_action *old);

/*
 * rt_sigprocmask(2), likewise.  *kernel is the mask that the thread has, and that changes.
 */
long sr_signals_mask(int how, const uint64_t *set, uint64_t *old, uint64_t *kernel);

/*
 * A mask that the kernel gets for a while (ppoll, sigsuspend), without claimed signals.  Returns
 * its argument if there is nothing to leave out, else copy.
 */
const sigset_t *sr_signals_filter(const sigset_t *set, sigset_t *copy);

#endif
