/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsc.h: the time-stamp counter.
 *
 * Programs read the counter without any call (rdtsc, rdtscp). prctl(PR_SET_TSC) makes these
 * instructions fault, and the handler turns the fault into a recorded call, which a replay
 * answers from the trace. Each one costs about 2 us.
 *
 * The vDSO also reads the counter, for clock_gettime and gettimeofday, so their wrappers
 * use the system call instead. What glibc itself asks the vDSO is not recorded, nor are
 * reads inside intercepted calls and in threads of libraries.
 *
 * The mode belongs to the thread. Threads that it creates and programs that it executes
 * inherit the mode, and a new image would be killed at its first rdtsc. So the code that
 * creates a process pauses the trap.
 */
#ifndef SHIM_KERNEL_TSC_H
#define SHIM_KERNEL_TSC_H

#include <stdbool.h>

#include "logd/base/compiler.h"

/*
 * -errno if the trap is not possible. Nothing traps until sr_tsc_begin(), after
 * sr_signals_start().
 */
int sr_tsc_start(void);
/* Starts the trap in the calling thread and in those that it creates. */
void sr_tsc_begin(void);

extern bool sr_tsc_traps SR_HIDDEN;

/* Call around the creation of a process, in this thread; resume if that call returns. */
void sr_tsc_pause(void);
void sr_tsc_resume(void);

/* Ends the trap: this thread is a library's, or the process is a child that is not recorded. */
void sr_tsc_leave_alone(void);

#endif
