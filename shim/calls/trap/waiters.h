/* SPDX-License-Identifier: BSD-2-Clause */
/* waiters.h: the words that a futex_waitv waits at. */
#ifndef SHIM_CALLS_TRAP_WAITERS_H
#define SHIM_CALLS_TRAP_WAITERS_H

#include <stdint.h>

/* How many there are, of the call with these arguments; 0: the kernel refuses it. */
unsigned int sr_waiters(const uint64_t a[6]);

/* The address of the i-th one. */
uint64_t sr_waiters_word(const uint64_t a[6], unsigned int i);

#endif
