/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * random.h: random numbers that a program draws by an instruction (rdrand, rdseed), without any call: libgcrypt does, and what
 * has libstdc++'s std::random_device linked in.
 *
 * Nothing traps these instructions.  So they are searched for in all code when the recording starts, and in new code before it
 * is executed (tsc_sites.h).  Where it is certain that it is one, its first byte becomes hlt, whose fault makes a recorded call.
 * A replay answers it from the trace.
 */
#ifndef SHIM_KERNEL_RANDOM_H
#define SHIM_KERNEL_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/kernel/tsc_sites.h"

/* Before the program's main, in a section.  SIGSEGV is claimed. */
void sr_random_begin(void);
/* The range is executable from now on. */
void sr_random_searches(uintptr_t begin, size_t size);
/* No code is to be changed any more, and what was is put back. */
void sr_random_stop(void);

/* The instruction at this site has faulted.  Does what it does. */
void sr_random_draw(const struct sr_tsc_site *site, ucontext_t *uc);

#endif
