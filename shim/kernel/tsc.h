/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsc.h: the time-stamp counter.
 *
 * Programs read it without any call (rdtsc, rdtscp).  prctl(PR_SET_TSC) makes that a fault, and
 * the handler makes a recorded call of it, which a replay answers from the trace.  It costs
 * some 2 us each time.
 *
 * The vDSO reads the counter as well, for clock_gettime and gettimeofday: their wrappers use
 * the system call instead.  What glibc itself asks the vDSO passes, and so do reads inside
 * intercepted calls and in threads of libraries.
 *
 * The mode belongs to the thread.  Threads that it creates and programs that it executes
 * inherit it: a new image would be killed at its first rdtsc.  So the code that makes a process
 * pauses the trap.
 */
#ifndef SHIM_KERNEL_TSC_H
#define SHIM_KERNEL_TSC_H

#include <stdbool.h>

#include "logd/base/compiler.h"

/* -errno: not here.  Nothing traps before sr_tsc_begin(), after sr_signals_start(). */
int sr_tsc_start(void);
/* In the calling thread, and those that it creates. */
void sr_tsc_begin(void);

extern bool sr_tsc_traps SR_HIDDEN;

/* Around what makes a process, in this thread; resume where it returns. */
void sr_tsc_pause(void);
void sr_tsc_resume(void);

/* This thread is a library's, or the process is a child that is not recorded. */
void sr_tsc_leave_alone(void);

#endif
