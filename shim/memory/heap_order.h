/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap_order.h: counts each thread's operations on the program's heap.  Places in the program's code are told apart by
 * their number, and signals that wait are delivered in front of one, which a replay finds again.  In a process with threads
 * the begin and end of each are reported to the engine, which keeps them in order (threads/heap_runs.h).
 */
#ifndef SHIM_MEMORY_HEAP_ORDER_H
#define SHIM_MEMORY_HEAP_ORDER_H

#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/stack_below.h"
#include "shim/core/thread.h"

/* Runs the handlers of signals that wait, or are due. */
void sr_handlers_at_heap(void);

/*
 * Call before an operation, and pass the result to sr_heap_end after it. What the operation does
 * to the heap itself belongs to it.
 *
 * The result, and all that a caller keeps on the stack, has to be the same in a recording and its replay: calls may be recorded
 * within an operation (UCX's hooks at brk), and a replay puts the recorded bytes where an array was registered on the stack
 * (verbs/compared.h), with this frame in it.  An engine's address is not the same.
 */
static inline bool sr_heap_begin(void)
{
	const struct sr_engine *e = sr_engine;

	if (!e || sr_self.depth || sr_self.in_operation)
		return false;
	if (__builtin_expect(sr_self.signals.waiting || sr_self.signals.due_at_heap, 0))
		sr_handlers_at_heap();
	if (__builtin_expect(!sr_threaded, 1)) {
		sr_self.heap_ops++;
		return false;
	}
	sr_self.uses_heap = true;
	if (!e->heap_begin(&sr_self))
		return false;
	sr_self.in_operation = e;
	return true;
}

static inline void sr_heap_end(bool begun)
{
	const struct sr_engine *e;

	if (!begun)
		return;
	e = sr_self.in_operation;
	sr_self.in_operation = NULL;
	e->heap_end(&sr_self);
}

/*
 * Behind that, in a frame that is about to return: programs make such operations where they make a struct on the stack
 * (core/stack_below.h).
 */
static inline __attribute__((always_inline)) void sr_heap_clear_below(bool begun, const int bytes)
{
	struct sr_thread *t = &sr_self;

	if (!begun)
		return;
	/* The first of a run was recorded, or waited for: that goes deep.  So does one in front of which others ran. */
	if (__builtin_expect(t->heap_ops == 1 || t->waited_at_heap, 0) && sr_stack_has_room(t, (uintptr_t)__builtin_frame_address(0))) {
		t->waited_at_heap = false;
		sr_clear_stack_below(SR_STACK_DEEP);
	} else {
		sr_clear_stack_below(bytes);
	}
}

#endif
