/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * openmp.h: threads of OpenMP that compute at the same time, and meet one at a time.
 *
 * GCC's runtime (libgomp) decides by atomics which thread gets the next piece of a loop, which one is the last at a
 * barrier, or the first in a critical section.  Where threads run one at a time, except where they compute
 * (core/phases.h), the runtime's code must not run beside other threads.  So its functions are wrapped: a thread that
 * enters one makes a call (openmp_enters), at which it takes the run token, and makes another one (openmp_leaves) when
 * it goes on in the program's code, where it may part.  The same holds for the body of a parallel region, which the
 * runtime calls.  The runtime's code itself runs in a replay as it did in the recording.
 */
#ifndef SHIM_THREADS_OPENMP_H
#define SHIM_THREADS_OPENMP_H

/* A variable of the environment that the runtime reads: NULL, or what it is to find there. */
const char *sr_openmp_variable(const char *name);

#endif
