/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tsc.h: the time-stamp counter.
 *
 * Programs read it without any call (rdtsc, rdtscp).  prctl(PR_SET_TSC) makes that a
 * fault, and the handler a recorded call, which a replay answers from the trace.
 * It costs some 2 us each time.
 *
 * The vDSO reads it as well, for clock_gettime and gettimeofday: their
 * wrappers use the system call instead.  What glibc itself asks the vDSO is let
 * through, as are reads inside of intercepted calls and in threads of libraries.
 *
 * The mode is the thread's, goes over to those that it creates, and to what it
 * executes: a new image would be killed at its first rdtsc.  So who makes a
 * process pauses it.
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
