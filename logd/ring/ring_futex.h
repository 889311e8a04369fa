/* SPDX-License-Identifier: BSD-2-Clause */
/* ring_futex.h: how the sides of a ring sleep and wake each other; for ring.h's modules. */
#ifndef LOGD_RING_RING_FUTEX_H
#define LOGD_RING_RING_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>

#include "logd/base/rawsys.h"

/* In wake_at and room_at: that side is awake. */
#define NOBODY_SLEEPS UINT64_MAX

static inline void futex_wake_all(_Atomic uint32_t *word)
{
	sr_sys_futex((uint32_t *)word, FUTEX_WAKE, INT32_MAX, NULL);
}

static inline void futex_wait_ms(_Atomic uint32_t *word, uint32_t value, int64_t ms)
{
	struct timespec timeout = sr_sys_ms(ms);

	sr_sys_futex((uint32_t *)word, FUTEX_WAIT, value, ms < 0 ? NULL : &timeout);
}

#endif
