/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.h: the shim's mutex, after Drepper, "Futexes are tricky" (2011), mutex2.
 *
 * Not a pthread mutex: those are the program's, and intercepted.
 *
 * While the process has one thread, the state is kept up to date by plain
 * stores: a locked instruction costs some 5 ns, and a recorded post has several.
 * The state is right at any time, so a thread may start while the lock is held.
 */
#ifndef SHIM_LOCK_H
#define SHIM_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>

#include "logd/rawsys.h"

/* 0 free, 1 held, 2 held and somebody may be waiting. */
struct sr_lock {
	_Atomic uint32_t state;
};

static inline void sr_lock(struct sr_lock *l)
{
	uint32_t free = 0;

	if (__libc_single_threaded && atomic_load_explicit(&l->state, memory_order_relaxed) == 0) {
		atomic_store_explicit(&l->state, 1, memory_order_relaxed);
		return;
	}
	if (atomic_compare_exchange_strong_explicit(&l->state, &free, 1, memory_order_acquire,
						    memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&l->state, 2, memory_order_acquire))
		sr_sys_futex((uint32_t *)&l->state, FUTEX_WAIT_PRIVATE, 2, NULL);
}

static inline void sr_unlock(struct sr_lock *l)
{
	if (__libc_single_threaded) {
		atomic_store_explicit(&l->state, 0, memory_order_relaxed);
		return;
	}
	if (atomic_exchange_explicit(&l->state, 0, memory_order_release) == 2)
		sr_sys_futex((uint32_t *)&l->state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

#endif
