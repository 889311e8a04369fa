/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack.h: alternate signal stacks, the shim's and the program's.
 *
 * An access to an exposed region may fault when the thread is at the end of its stack, on the
 * stack of a coroutine, or on an alternate stack that is just large enough for the program's
 * handler or in use for something else.  So the kernel gets a stack of the shim's, one per
 * thread, and the stack that the program sets is kept here.
 */
#ifndef SHIM_SIGNALS_STACK_H
#define SHIM_SIGNALS_STACK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/core/signal_state.h"

/* From now on, in this thread.  Without memory nothing happens. */
void sr_signal_stack_begin(struct sr_signal_stack *s);

/* The thread is over, or is not the shim's any more: the kernel has the program's again. */
void sr_signal_stack_end(struct sr_signal_stack *s);

/* The same in a forked child, where locks may be held by threads that it does not have. */
void sr_signal_stack_abandon(struct sr_signal_stack *s);

/* What the kernel has, if it is the shim's. */
stack_t sr_signal_stack_own(const struct sr_signal_stack *s);

/* A handler begins: the program's stack may be out of use meanwhile (SS_AUTODISARM). */
void sr_signal_stack_disarm(struct sr_signal_stack *s);

/* Is sp on the shim's stack? */
bool sr_signal_stack_is_own(const struct sr_signal_stack *s, uintptr_t sp);

/*
 * The upper end of the program's, if a handler that wants it (SA_ONSTACK) is
 * to begin there when this was interrupted; 0: no.
 */
uintptr_t sr_signal_stack_top(const struct sr_signal_stack *s, uintptr_t sp);

/* sigaltstack(2) as the kernel has it, for a caller whose stack pointer is sp.  -errno. */
long sr_signal_stack_set(struct sr_signal_stack *s, const stack_t *set, stack_t *old, uintptr_t sp);

#endif
