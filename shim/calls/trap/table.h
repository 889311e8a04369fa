/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h: which system calls are calls of calls.def, and which need no record. */
#ifndef SHIM_CALLS_TRAP_TABLE_H
#define SHIM_CALLS_TRAP_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "calls.gen.h"

#define SR_TRAP_CALLS 512

/* Made from calls.def: system call number to call number + 1; 0: it is not described. */
extern const uint16_t sr_trap_calls[SR_TRAP_CALLS];

/* Once, at the start. */
void sr_syscalls_list_harmless(void);

/*
 * It concerns only this process's own memory, threads, signals and limits, and is made in a
 * replay as well; or it does to a file what is done to it again in a replay.
 */
bool sr_syscall_is_harmless(long nr);

/* Which of its arguments is the number of a process or a thread; -1: none is. */
int sr_syscall_number_at(long nr);

/* The call that it is, or -1; may rewrite the arguments. */
int sr_syscall_call(long nr, uint64_t a[6]);

/* The same for calls by which threads wait for each other, which are recorded where they take turns. */
int sr_syscall_call_of_threads(long nr);

#endif
