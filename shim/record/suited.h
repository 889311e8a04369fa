/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * suited.h: which instructions can be places (places.h), found out once for each.
 *
 * For the thread that steps: one at a time.
 */
#ifndef SHIM_RECORD_SUITED_H
#define SHIM_RECORD_SUITED_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/exposed/probe/breakpoint.h"

/* Once.  False: no memory. */
bool sr_suited_start(void);

enum breakpoint_kind sr_suited(uintptr_t pc);
/* It is a place in the trace from now on, so that no other one can have bytes of it.  What the breakpoint there will be. */
enum breakpoint_kind sr_suited_take(uintptr_t pc);

/* Is it code of a file?  In what a program writes as it runs no instruction is suited.  Ask where the thread begins to step. */
bool sr_suited_may_be(uintptr_t pc);

/*
 * Does libc's code work there for ld.so, or on what the shim keeps, as at the end of a thread?  A replay has other libraries and
 * another heap of the shim's, and would not find the place again.  r: all registers.
 */
bool sr_suited_serves_libraries(uintptr_t pc, const uint64_t r[16]);

#endif
