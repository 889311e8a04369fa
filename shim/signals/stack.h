/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack.h: the alternate signal stacks of the shim and of the program.
 *
 * An access to an exposed region may fault when the thread has reached the end of its
 * stack, or runs on a coroutine's stack, or on an alternate stack that is in use or just
 * large enough for the program's handler. So each thread gives the kernel a stack of the
 * shim's, and this module stores the stack that the program sets.
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

/* The same for a forked child, where a thread that the child does not have may hold the lock. */
void sr_signal_stack_abandon(struct sr_signal_stack *s);

/* The shim's stack, as the kernel has it. */
stack_t sr_signal_stack_own(const struct sr_signal_stack *s);

/* Call when a handler begins: the program's stack may be disabled meanwhile (SS_AUTODISARM). */
void sr_signal_stack_disarm(struct sr_signal_stack *s);

/* Is sp on the shim's stack? */
bool sr_signal_stack_is_own(const struct sr_signal_stack *s, uintptr_t sp);

/*
 * The upper end of the program's alternate stack if a handler with SA_ONSTACK that
 * interrupts code with this stack pointer must start there; otherwise 0.
 */
uintptr_t sr_signal_stack_top(const struct sr_signal_stack *s, uintptr_t sp);

/* Does what the kernel does for sigaltstack(2), for a caller with stack pointer sp. -errno. */
long sr_signal_stack_set(struct sr_signal_stack *s, const stack_t *set, stack_t *old, uintptr_t sp);

#endif
