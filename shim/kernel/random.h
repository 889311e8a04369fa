/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * random.h: random numbers that a program draws by an instruction (rdrand, rdseed), without any call: libgcrypt does, and what
 * has libstdc++'s std::random_device linked in.
 *
 * Nothing traps these instructions, so they are searched for (untrapped.h), and each makes a recorded call.  A replay answers
 * it from the trace.
 */
#ifndef SHIM_KERNEL_RANDOM_H
#define SHIM_KERNEL_RANDOM_H

#include <stdbool.h>
#include <ucontext.h>

#include "shim/kernel/tsc_sites.h"

/* Has this processor such instructions? */
bool sr_random_is_sought(void);
/* What the instruction at this site does. */
void sr_random_draw(const struct sr_tsc_site *site, ucontext_t *uc);

#endif
