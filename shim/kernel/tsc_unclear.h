/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsc_unclear.h: pages that hold what looks like an instruction that reads the time-stamp counter, where nobody knows of one:
 * mostly tables among code that has no unwind information (libcrypto, x264).
 *
 * They may not be executed any more.  If one is, it holds code: it may be executed from then on, and the counter traps again.
 */
#ifndef SHIM_KERNEL_TSC_UNCLEAR_H
#define SHIM_KERNEL_TSC_UNCLEAR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* During a search: such bytes begin at this address.  False: the page has been executed, or there are too many. */
bool sr_tsc_unclear_add(uintptr_t at);

/* All else is known: from now on the pages may not be executed.  False: they may, all of them. */
bool sr_tsc_unclear_begin(void);

/* Has the thread faulted as it executed one?  Then it may go on. */
bool sr_tsc_unclear_executes(const siginfo_t *info, const ucontext_t *uc);

/* All may be executed again. */
void sr_tsc_unclear_end(void);

#endif
