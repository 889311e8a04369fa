/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/lock.h"

#include <linux/futex.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"

/* Not logd/base/lock.h, which has a single-threaded mode: this lock must hold against a signal. */
_Atomic uint32_t exposed_lock_state;

NO_VECTORS static void await_lock(void)
{
	_Atomic int32_t *sleeper = sr_lock_sleep_begins();

	while (atomic_exchange_explicit(&exposed_lock_state, 2, memory_order_acquire))
		sr_sys_futex((uint32_t *)&exposed_lock_state, FUTEX_WAIT_PRIVATE, 2, NULL);
	sr_lock_sleep_ends(sleeper);
}

void exposed_lock(uint64_t *mask)
{
	const uint64_t all = BLOCKED;
	uint32_t free = 0;

	if (mask)
		sr_syscall(SYS_rt_sigprocmask, SIG_SETMASK, SR_ARG(&all), SR_ARG(mask), sizeof(all),
			   0, 0);
	/* Set before the lock is taken: a tick in between would wait for this very thread. */
	exposed_self.busy = true;
	if (!atomic_compare_exchange_strong_explicit(&exposed_lock_state, &free, 1, memory_order_acquire,
						     memory_order_relaxed))
		await_lock();
}

NO_VECTORS void exposed_wake(void)
{
	sr_sys_futex((uint32_t *)&exposed_lock_state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

NO_VECTORS void exposed_unlock(const uint64_t *mask)
{
	exposed_release();
	if (mask)
		sr_syscall(SYS_rt_sigprocmask, SIG_SETMASK, SR_ARG(mask), 0, sizeof(*mask), 0, 0);
}
