/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * untrapped.h: instructions that bring something into the program and that nothing traps: those that draw random numbers
 * (random.h), and cpuid where the processor cannot make it fault (cpuid_trap.h).
 *
 * So they are searched for in all code when the process starts, and in new code before it is executed (tsc_sites.h).  Where it
 * is certain that it is one, its first byte becomes hlt, whose fault is answered.
 */
#ifndef SHIM_KERNEL_UNTRAPPED_H
#define SHIM_KERNEL_UNTRAPPED_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/kernel/tsc_sites.h"

/* Before the program's main, in a section.  SIGSEGV is claimed. */
void sr_untrapped_begin(void);
/* The range is executable from now on. */
void sr_untrapped_searches(uintptr_t begin, size_t size);
/* No code is to be changed any more, and what was is put back. */
void sr_untrapped_stop(void);

/* The instruction at this site has faulted, and its kind is not SR_SOUGHT_COUNTER.  Does what it does. */
void sr_untrapped_do(const struct sr_tsc_site *site, ucontext_t *uc);

#endif
