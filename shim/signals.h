/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.h: the signals that sreplay needs itself, and those of the program.
 *
 * Modules claim SIGSEGV (windows, the time-stamp counter) and SIGSYS (the net)
 * in a recorded or replayed process.  From then on the kernel has the shim's
 * handler, and the program's own disposition is a shadow: it is what sigaction
 * tells, and what a signal meets that no module wanted: the program's handler,
 * on the stack, with the mask and the context that the kernel would give it, or
 * the default action, core and all.  Before a claim, and in a process that is
 * none of sreplay's business, nothing is installed.
 *
 * A claimed signal is never blocked for the kernel, which would kill a thread
 * that faults then.  The kernel has the shim's alternate stack in each thread
 * (signal_stack.h).  What the program says of both is kept beside.
 */
#ifndef SHIM_SIGNALS_H
#define SHIM_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/signal_frame.h"
#include "shim/signal_stack.h"

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

/* Per thread, in sr_thread.  Zeroed: as the kernel has it. */
struct sr_signal_state {
	uint64_t hidden; /* claimed signals that the program has blocked */
	uint64_t held;   /* of these, such as were sent meanwhile, and with what */
	siginfo_t held_info[2];
	struct sr_signal_stack stack;
};

/*
 * A thread of the program's begins, with what its creator had hidden (sr_signals_hidden), and
 * ends.  In it.
 */
uint64_t sr_signals_hidden(void);
void sr_signals_thread_begins(uint64_t hidden);
void sr_signals_thread_ends(void);

/*
 * In a forked child, which is not recorded: the kernel has the program's
 * dispositions, stack and mask again.  Claims are over.
 */
void sr_signals_forget_in_child(void);

/* Is the kernel's idea of dispositions another than the program's? */
bool sr_signals_are_shadowed(void);

/* What libc gives the kernel as sa_restorer, and a program finds there. */
void *sr_signals_libc_restorer(void);

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
