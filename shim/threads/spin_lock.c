/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin_lock.c: pthread_spin_lock where threads run one at a time.  The lock's holder has to wait in line for the run token
 * with the others, so a thread that only spun would take the processor from it.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "shim/core/hooks.h"
#include "shim/core/next.h"
#include "shim/core/run_token.h"

#define SPINS 100

uint64_t sr_invoke_spin_lock(const struct sr_call_desc *d, uint64_t *a)
{
	SR_NEXT(next, "pthread_spin_trylock");
	int (*try)(pthread_spinlock_t *) = (int (*)(pthread_spinlock_t *))sr_next(&next);

	if (!sr_serial || !try)
		return sr_real(d, a);
	for (;;) {
		for (int i = 0; i < SPINS; i++)
			if (!try((pthread_spinlock_t *)a[0]))
				return 0;
		sr_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	}
}
