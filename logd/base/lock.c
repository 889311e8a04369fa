/* SPDX-License-Identifier: BSD-2-Clause */
/* Two threads want the lock at the same time. */
#include "logd/base/lock.h"

#include <linux/futex.h>

#include "logd/base/rawsys.h"

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Most holders release a lock sooner than a system call returns. */
static bool spin(struct sr_lock *l)
{
	for (int i = 0; i < SR_LOCK_SPINS; i++) {
		if (!atomic_load_explicit(&l->held, memory_order_relaxed) && sr_trylock(l))
			return true;
		relax();
	}
	return false;
}

void sr_lock_slow(struct sr_lock *l)
{
	struct timespec short_while = {.tv_nsec = SR_LOCK_SLEEP_NS};

	if (spin(l))
		return;
	atomic_fetch_add(&l->waiting, 1);
	while (!sr_trylock(l))
		sr_sys_futex((uint32_t *)&l->held, FUTEX_WAIT_PRIVATE, 1, &short_while);
	atomic_fetch_sub(&l->waiting, 1);
}

void sr_unlock_slow(struct sr_lock *l)
{
	sr_sys_futex((uint32_t *)&l->held, FUTEX_WAKE_PRIVATE, 1, NULL);
}
