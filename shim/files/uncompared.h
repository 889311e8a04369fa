/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uncompared.h: what leaves the process in ways that no record describes, or is done by threads or system calls that are
 * not recorded.  A replay in which there was such a thing says so in its verdict.  Set by any thread, in both runs.
 */
#ifndef SHIM_FILES_UNCOMPARED_H
#define SHIM_FILES_UNCOMPARED_H

#include <stdatomic.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "replay/abi/control.h"

/* Where a sum of SR_UNCOMPARED_* is kept.  In a replay the command reads it, however the process ends. */
extern _Atomic uint32_t *sr_uncompared SR_HIDDEN;

static inline void sr_output_is_uncompared(uint32_t why)
{
	if (!(atomic_load_explicit(sr_uncompared, memory_order_relaxed) & why))
		atomic_fetch_or(sr_uncompared, why);
}

/* Now it is. */
static inline void sr_output_is_compared(uint32_t why)
{
	atomic_fetch_and(sr_uncompared, ~why);
}

#endif
