/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kept_stack.h: what the program left on the stack below, kept while the shim goes deep.
 *
 * A call clears some bytes of the stack below itself (core/stack_below.h).  Where only the recorder, or only a replay, goes
 * deeper (it makes a breakpoint, or searches code), what was there is put back: places (record/places.h) are told by the stack, and
 * the program has memory there that it writes in part.
 */
#ifndef SHIM_MEMORY_KEPT_STACK_H
#define SHIM_MEMORY_KEPT_STACK_H

#include <stddef.h>

#include "shim/core/thread.h"

struct sr_kept_stack {
	char *at, *copy; /* copy NULL: nothing is kept, on a stack of the program's own making for example */
};

/* Both in the same function.  Not what lies right below that, which is cleared. */
void sr_stack_keep(const struct sr_thread *t, struct sr_kept_stack *k);
void sr_stack_put_back(struct sr_kept_stack *k);

#endif
