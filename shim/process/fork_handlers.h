/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork_handlers.h: the program's handlers around fork (pthread_atfork).
 *
 * libc runs them within its fork, where a recording has no calls, and a replay makes no fork.  They are the program's code, and
 * what they count or print is seen afterwards.  So the shim keeps them, and its fork runs them before and behind the real one,
 * in a replay too.  Where libc forks without the shim's fork (daemon), libc runs them.
 *
 * What is registered within a call of the verbs libraries stays with libc: it belongs to the real fork.
 */
#ifndef SHIM_PROCESS_FORK_HANDLERS_H
#define SHIM_PROCESS_FORK_HANDLERS_H

/* Of the shim itself: they run within the real fork. */
int sr_fork_add_own(void (*prepare)(void), void (*parent)(void), void (*child)(void));

void sr_fork_prepares(void);
void sr_fork_goes_on_in_parent(void);
void sr_fork_goes_on_in_child(void);

#endif
