/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h: which system calls are calls of calls.def, and which ones need no record. */
#ifndef SHIM_CALLS_TRAP_TABLE_H
#define SHIM_CALLS_TRAP_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "calls.gen.h"

#define SR_TRAP_CALLS 512

/* Generated from calls.def: system call number to call number + 1; 0: not described. */
extern const uint16_t sr_trap_calls[SR_TRAP_CALLS];

/* Called once, at the start. */
void sr_syscalls_list_harmless(void);

/*
 * A harmless call is not recorded, and a replay makes it, too.  It concerns only the memory,
 * threads and limits of this process, or it changes a file in a way that the replay repeats; and its
 * result is the same there.
 */
bool sr_syscall_is_harmless(long nr);

/* The call of calls.def for this system call, or -1.  May rewrite the arguments. */
int sr_syscall_call(long nr, uint64_t a[6]);

/*
 * The same for system calls by which threads wait for each other.  They are recorded only if
 * threads run one at a time; those that wait in memory that processes share always are.
 */
int sr_syscall_call_of_threads(long nr, const uint64_t a[6]);

#endif
