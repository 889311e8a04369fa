/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.h: the one lock that guards all page states. */
#ifndef SHIM_EXPOSED_PAGE_LOCK_H
#define SHIM_EXPOSED_PAGE_LOCK_H

#include <signal.h>

#include "shim/exposed/page/thread.h"

/* But for those that the shim itself needs (shim/signals/signals.h): a fault would kill the process. */
#define BLOCKED (~(1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1)))

/*
 * Signals stay blocked while it is held: a handler of the program's may fault.
 * mask is where the thread's own is kept; NULL in the handler, where they are blocked.
 */
void exposed_lock(uint64_t *mask) NO_VECTORS;
void exposed_unlock(const uint64_t *mask) NO_VECTORS;

/* 0: nobody has it; 2: somebody may wait for it. */
extern _Atomic uint32_t exposed_lock_state;
void exposed_wake(void) NO_VECTORS;

/* As with NULL; false: another thread, or this one, has it. */
NO_VECTORS static inline bool exposed_try_lock(void)
{
	uint32_t free = 0;

	if (exposed_self.busy)
		return false;
	exposed_self.busy = true;
	if (!atomic_compare_exchange_strong_explicit(&exposed_lock_state, &free, 1, memory_order_acquire, memory_order_relaxed))
		exposed_self.busy = false;
	return exposed_self.busy;
}

/* What that has got; or as exposed_unlock with NULL. */
NO_VECTORS static inline void exposed_release(void)
{
	if (atomic_exchange_explicit(&exposed_lock_state, 0, memory_order_release) == 2)
		exposed_wake();
	exposed_self.busy = false;
}

#endif
