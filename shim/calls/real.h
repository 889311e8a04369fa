/* SPDX-License-Identifier: BSD-2-Clause */
/* real.h: the libraries behind the wrappers. */
#ifndef SHIM_CALLS_REAL_H
#define SHIM_CALLS_REAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"

/* The function that the wrapper of an exported call replaces; NULL while there is none. */
void *sr_real_function(const struct sr_call_desc *d);

/*
 * The real function if the process is not recorded and the function was found, else NULL.  For
 * locks, which every process with threads takes all the time: sr_call has the same effect but
 * takes 8 ns longer.
 */
extern void *_Atomic sr_real_functions[SR_CALL_COUNT] SR_HIDDEN;

static inline void *sr_unrecorded(enum sr_call_number n)
{
	if (__builtin_expect(sr_engine != NULL, 1))
		return NULL;
	return atomic_load_explicit(&sr_real_functions[n], memory_order_acquire);
}

/*
 * The same, also inside a section: for locks whose wrappers do nothing there but the real call.
 * Providers take them in each call of the data path.
 */
static inline void *sr_unrecorded_or_nested(enum sr_call_number n)
{
	if (sr_engine && !sr_is_section(&sr_self))
		return NULL;
	return atomic_load_explicit(&sr_real_functions[n], memory_order_acquire);
}

/*
 * Finds all functions of libc that have wrappers, before the program runs: a later look-up would
 * clear the message that dlerror has for the program.
 */
void sr_look_up_libc(void);

#endif
