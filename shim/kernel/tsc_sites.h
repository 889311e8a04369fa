/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsc_sites.h: the instructions of the process that read the time-stamp counter, and those that nothing traps
 * (untrapped.h).
 *
 * The first byte of each is replaced by hlt, which faults in the program whether the counter
 * traps or not. Those that read the counter and fault often become jumps
 * (shim/exposed/probe/counter.h).
 */
#ifndef SHIM_KERNEL_TSC_SITES_H
#define SHIM_KERNEL_TSC_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/exposed/x86/sought.h"

/* An instruction, whose first byte is hlt. */
struct sr_tsc_site {
	uintptr_t pc;
	enum sr_sought kind;
	uint8_t length; /* of one that reads the counter; of others 0 */
	uint8_t first;  /* the byte in whose place hlt is */
	bool refused, is_jump; /* it cannot be one; it has become one */
	_Atomic uint32_t faults;
};

/*
 * Finds the instructions in all executable memory, and replaces them. False: it is not known
 * whether these are all. all_or_none: then none is replaced. Call inside a section.
 */
bool sr_tsc_sites_find(bool all_or_none);

/* Finds and replaces those of another kind. Call inside a section. */
void sr_untrapped_sites_find(enum sr_sought kind);

/* Does some code of the range look as if it had such an instruction? */
bool sr_tsc_sites_may_be_in(enum sr_sought sought, uintptr_t begin, size_t size);

/* NULL: there is none at pc. */
struct sr_tsc_site *sr_tsc_site_at(uintptr_t pc);

/*
 * It has faulted. If it has done so a few times, it is to become a jump at a clock call: that
 * takes a millisecond on a slow machine, which a program that compares the counter with a clock
 * (perftest does) must not find between the two. If it has done so often, it becomes one at
 * once. Call inside a section.
 */
void sr_tsc_site_faulted(struct sr_tsc_site *site);

/* Instructions are to become jumps: this makes them. Call inside a section. */
extern _Atomic bool sr_tsc_jumps_due SR_HIDDEN;
void sr_tsc_sites_make_jumps(void);

/* Puts the instructions back that are still hlt: all of them, or those that nothing traps. */
void sr_tsc_sites_restore(void);
void sr_untrapped_sites_restore(void);

#endif
