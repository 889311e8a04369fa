/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack.h: the alternate signal stacks of the shim and of the program.
 *
 * An access to an exposed region may fault when the thread has reached the end of its
 * stack, or runs on a coroutine's stack, or on an alternate stack that is in use or just
 * large enough for the program's handler; and a system call is trapped by a signal, which has no
 * room on a goroutine's stack of 2 KiB. So each thread gives the kernel a stack of the shim's, and
 * this module stores the stack that the program sets.
 *
 * A handler of the program may interrupt a trapped call, whose frames lie on the shim's stack. It
 * runs on the program's stack, and makes calls itself. For that time the kernel has another one of
 * the shim's stacks. A handler that jumps away never gives it back, so they are used in turn. Beside each lies one for
 * operations of the data path (core/call_stack.h), which handlers interrupt in the same way.
 *
 * The kernel forgets the stack when a signal comes, and has it again when the shim's handler returns
 * (SS_AUTODISARM). Else it would take no other stack from a handler that returns.
 */
#ifndef SHIM_SIGNALS_STACK_H
#define SHIM_SIGNALS_STACK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/core/signal_state.h"

/* Installs the shim's stack for this thread; does nothing without memory. */
void sr_signal_stack_begin(struct sr_signal_stack *s);

/* Call when the thread ends or leaves the shim: gives the program's stack back to the kernel. */
void sr_signal_stack_end(struct sr_signal_stack *s);

/*
 * The same for a forked child, where a thread that the child does not have may hold the lock. A handler on the shim's stack
 * gives the kernel the program's (s->program) when it returns.
 */
void sr_signal_stack_abandon(struct sr_signal_stack *s);

/* Code with this stack pointer goes on: the stack that the kernel is to have then. */
stack_t sr_signal_stack_for(const struct sr_signal_stack *s, uintptr_t sp);

/* The upper end of the shim's stack. */
uintptr_t sr_signal_stack_own_top(const struct sr_signal_stack *s);

/* The next of them; what is on the current one stays. */
void sr_signal_stack_next(struct sr_signal_stack *s);

/* Call when a handler begins: the program's stack may be disabled meanwhile (SS_AUTODISARM). */
void sr_signal_stack_disarm(struct sr_signal_stack *s);

/* Back to that one of them, and to this end of the program's stack: a handler has returned. */
void sr_signal_stack_back(struct sr_signal_stack *s, uint32_t number, uintptr_t end);

/* Is sp on one of the shim's stacks for signals? */
bool sr_signal_stack_is_own(const struct sr_signal_stack *s, uintptr_t sp);

/* A signal has interrupted code with this stack pointer. */
void sr_signal_stack_entered(struct sr_signal_stack *s, uintptr_t sp);

/* sp, or if it is on a stack of the shim's, where the program's stack ended when the thread came there. */
uintptr_t sr_signal_stack_of_program(const struct sr_signal_stack *s, uintptr_t sp);

/*
 * The upper end of the program's alternate stack if a handler with SA_ONSTACK that
 * interrupts code with this stack pointer must start there; otherwise 0.
 */
uintptr_t sr_signal_stack_top(const struct sr_signal_stack *s, uintptr_t sp);

/* Does what the kernel does for sigaltstack(2), for a caller with stack pointer sp. -errno. */
long sr_signal_stack_set(struct sr_signal_stack *s, const stack_t *set, stack_t *old, uintptr_t sp);

#endif
