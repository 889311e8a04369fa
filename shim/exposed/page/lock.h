/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.h: the one lock that guards all page states. */
#ifndef SHIM_EXPOSED_PAGE_LOCK_H
#define SHIM_EXPOSED_PAGE_LOCK_H

#include <signal.h>

#include "shim/exposed/page/thread.h"

/*
 * All signals but those that the shim itself needs (shim/signals/signals.h): blocked, they would kill the process at
 * a fault.
 */
#define BLOCKED (~(1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1) | 1ull << (SIGTRAP - 1)))

/*
 * Signals stay blocked while the lock is held, since a handler of the program's may fault.  The thread's own mask is
 * saved in *mask, which is NULL in the fault handler, where signals are blocked already.
 */
void exposed_lock(uint64_t *mask) NO_VECTORS;
void exposed_unlock(const uint64_t *mask) NO_VECTORS;

/* 0: free; 1: held; 2: held, and a thread may wait for it. */
extern _Atomic uint32_t exposed_lock_state;
void exposed_wake(void) NO_VECTORS;

/* As exposed_lock(NULL), but does not wait.  False if this or another thread has the lock. */
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

/* As exposed_unlock(NULL). */
NO_VECTORS static inline void exposed_release(void)
{
	if (atomic_exchange_explicit(&exposed_lock_state, 0, memory_order_release) == 2)
		exposed_wake();
	exposed_self.busy = false;
}

#endif
