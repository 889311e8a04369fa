/* SPDX-License-Identifier: BSD-2-Clause */
/* Two threads want the lock at the same time. */
#include "logd/base/lock.h"

#include <linux/futex.h>
#include <stddef.h>

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

/* The more threads wait, the longer each sleeps at most: together they wake as often as one alone. */
static struct timespec short_while(uint32_t waiting)
{
	const int64_t most = 999999999, ns = (int64_t)waiting * SR_LOCK_SLEEP_NS;

	return (struct timespec){.tv_nsec = ns < most ? ns : most};
}

/* ------------------------------------------------------------------ who sleeps */

#define SLEEPERS 64

static _Atomic int32_t sleepers[SLEEPERS];

_Atomic int32_t *sr_lock_sleep_begins(void)
{
	const int32_t tid = (int32_t)sr_sys_gettid();

	for (int i = 0; i < SLEEPERS; i++) {
		_Atomic int32_t *s = &sleepers[((uint32_t)tid + (uint32_t)i) % SLEEPERS];
		int32_t none = 0;

		if (atomic_compare_exchange_strong(s, &none, tid))
			return s;
	}
	return NULL;
}

void sr_lock_sleep_ends(_Atomic int32_t *sleeper)
{
	if (sleeper)
		atomic_store(sleeper, 0);
}

bool sr_lock_sleeps(int32_t tid)
{
	for (int i = 0; i < SLEEPERS; i++)
		if (atomic_load_explicit(&sleepers[i], memory_order_relaxed) == tid)
			return true;
	return false;
}

/* --------------------------------------------------------------------- waiting */

void sr_lock_slow(struct sr_lock *l)
{
	_Atomic int32_t *sleeper;
	uint32_t waiting;

	if (spin(l))
		return;
	sleeper = sr_lock_sleep_begins();
	waiting = atomic_fetch_add(&l->waiting, 1) + 1;
	while (!sr_trylock(l)) {
		const struct timespec most = short_while(waiting);

		sr_sys_futex((uint32_t *)&l->held, FUTEX_WAIT_PRIVATE, 1, &most);
		waiting = atomic_load_explicit(&l->waiting, memory_order_relaxed);
	}
	atomic_fetch_sub(&l->waiting, 1);
	sr_lock_sleep_ends(sleeper);
}

void sr_unlock_slow(struct sr_lock *l)
{
	sr_sys_futex((uint32_t *)&l->held, FUTEX_WAKE_PRIVATE, 1, NULL);
}
