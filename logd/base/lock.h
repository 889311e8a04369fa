/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.h: the shim's mutex.  Pthread mutexes are the program's, and are intercepted.
 *
 * A locked instruction costs some 5 ns.  Taking the lock needs one, and none while the process has
 * a single thread; the state is right at any time, so that a thread may start while the lock
 * is held.
 *
 * Releasing it is a plain store, which is not ordered before the load of `waiting` behind it.  So
 * a thread that goes to sleep in between may miss its wake-up, if the store stays in its CPU's
 * buffer until the other CPU is in the kernel.  For this case sleeps are short.
 */
#ifndef LOGD_BASE_LOCK_H
#define LOGD_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/single_threaded.h>

#include "logd/base/compiler.h"

struct sr_lock {
	_Atomic uint32_t held;
	_Atomic uint32_t waiting; /* threads that sleep, or are about to */
};

#define SR_LOCK_SPINS    100
#define SR_LOCK_SLEEP_NS 1000000

void sr_lock_slow(struct sr_lock *l);
void sr_unlock_slow(struct sr_lock *l);

/* Does this thread of the process sleep in front of such a lock?  If very many do, that of some is not known. */
bool sr_lock_sleeps(int32_t tid);
/* Around another sleep of the shim's that ends by itself: sr_lock_sleeps() then says so, too.  Returns what the end needs. */
_Atomic int32_t *sr_lock_sleep_begins(void) NO_VECTORS;
void sr_lock_sleep_ends(_Atomic int32_t *sleeper) NO_VECTORS;

static inline bool sr_trylock(struct sr_lock *l)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong_explicit(&l->held, &free, 1, memory_order_acquire,
						       memory_order_relaxed);
}

static inline void sr_lock(struct sr_lock *l)
{
	if (__libc_single_threaded && atomic_load_explicit(&l->held, memory_order_relaxed) == 0) {
		atomic_store_explicit(&l->held, 1, memory_order_relaxed);
		return;
	}
	if (__builtin_expect(!sr_trylock(l), 0))
		sr_lock_slow(l);
}

static inline void sr_unlock(struct sr_lock *l)
{
	atomic_store_explicit(&l->held, 0, memory_order_release);
	if (__builtin_expect(atomic_load_explicit(&l->waiting, memory_order_relaxed), 0))
		sr_unlock_slow(l);
}

#endif
