/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap_order.h: in a process with threads, reports the begin and end of each operation on the
 * program's heap to the engine, which keeps these operations in order (threads/heap_runs.h).
 */
#ifndef SHIM_MEMORY_HEAP_ORDER_H
#define SHIM_MEMORY_HEAP_ORDER_H

#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"

/*
 * Call before an operation, and pass the result to sr_heap_end after it. What the operation does
 * to the heap itself belongs to it.
 */
static inline const struct sr_engine *sr_heap_begin(void)
{
	const struct sr_engine *e;

	if (__builtin_expect(!sr_threaded, 1))
		return NULL;
	e = sr_engine;
	if (!e || sr_self.depth || sr_self.in_operation)
		return NULL;
	sr_self.uses_heap = true;
	if (!e->heap_begin(&sr_self))
		return NULL;
	sr_self.in_operation = true;
	return e;
}

static inline void sr_heap_end(const struct sr_engine *e)
{
	if (!e)
		return;
	sr_self.in_operation = false;
	e->heap_end(&sr_self);
}

#endif
