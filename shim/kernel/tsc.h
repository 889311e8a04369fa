/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsc.h: the time-stamp counter.
 *
 * Programs read the counter without any call (rdtsc, rdtscp). prctl(PR_SET_TSC) makes these
 * instructions fault, and the handler turns the fault into a recorded call, which a replay
 * answers from the trace. Each one costs 2 us and more, and the vDSO's code faults as well,
 * so that clock_gettime and gettimeofday have to be system calls.
 *
 * So a recorded process that does this often has its code searched (tsc_sites.h). If all
 * instructions that read the counter are found, they are replaced, and the trap ends. It comes
 * back with new code that may have others, until that has been searched. A replay keeps the
 * trap.
 *
 * What glibc itself asks the vDSO is not recorded, nor are reads inside intercepted calls and
 * in threads of libraries.
 *
 * The mode belongs to the thread. Threads that it creates and programs that it executes
 * inherit the mode, and a new image would be killed at its first rdtsc. So the code that
 * creates a process pauses the trap. A thread whose trap should have ended finds out when it
 * traps.
 */
#ifndef SHIM_KERNEL_TSC_H
#define SHIM_KERNEL_TSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/compiler.h"

struct counter_handlers;

/*
 * -errno if the trap is not possible. Nothing traps until sr_tsc_begin(), after
 * sr_signals_start().
 */
int sr_tsc_start(void);
/*
 * Starts the trap in the calling thread and in those that it creates. h: what the jumps call
 * that may take its place (shim/exposed/probe/counter.h); NULL: it stays.
 */
void sr_tsc_begin(const struct counter_handlers *h);

/* Are the program's reads recorded? */
extern bool sr_tsc_traps SR_HIDDEN;
/* Do they trap, or have they been replaced? */
extern _Atomic bool sr_tsc_trapping SR_HIDDEN;

/* Where jumps run their handlers (shim/exposed/probe/counter.h): on the thread's call stack (shim/core/call_stack.h). */
void *sr_tsc_stack(void);

/* Handlers that make the usual call. */
extern const struct counter_handlers sr_tsc_calls SR_HIDDEN;

/* The program reads the counter at this place. aux: rdtscp's, or NULL. */
uint64_t sr_tsc_read(uintptr_t at, uint32_t *aux);

/* Call around the creation of a process, in this thread; resume if that call returns. */
void sr_tsc_pause(void);
void sr_tsc_resume(void);

/* Ends the trap in this thread, which is a library's. */
void sr_tsc_leave_alone(void);

/* The process is a child that is not recorded. Call after probes_stop_in_child(). */
void sr_tsc_forget_in_child(void);

#endif
