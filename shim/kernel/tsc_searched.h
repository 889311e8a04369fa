/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsc_searched.h: which mappings of code have been searched for instructions that read the time-stamp counter,
 * or draw random numbers, with all that is there known, and are as they were.  A program that loads its libraries one by one has each of them searched
 * once.
 *
 * One search at a time; code changes in any thread, in a section.
 */
#ifndef SHIM_KERNEL_TSC_SEARCHED_H
#define SHIM_KERNEL_TSC_SEARCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/exposed/x86/sought.h"

/* A search begins. */
void sr_tsc_searched_begins(void);

/* Need the mapping not be searched? */
bool sr_tsc_is_searched(enum sr_sought sought, uintptr_t begin, uintptr_t end, uint64_t inode);

/* All that this search has found there is known. */
void sr_tsc_searched_add(enum sr_sought sought, uintptr_t begin, uintptr_t end, uint64_t inode);

/* kept: what it has found will not be forgotten.  If code has changed meanwhile, none of it counts. */
void sr_tsc_searched_ends(bool kept);

/* The range is executable from now on, with other code perhaps. */
void sr_tsc_searched_changes(uintptr_t begin, size_t size);

#endif
