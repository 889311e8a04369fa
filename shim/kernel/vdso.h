/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vdso.h: makes libc ask the kernel for the time.
 *
 * The vDSO answers without a system call. So what libc asks for its own use (timeouts,
 * numbers derived from the time) would escape the system-call trap on some machines; on
 * others the vDSO itself makes system calls. With the trap on, the shim clears libc's
 * pointers into the vDSO, so that libc makes the system call, and takes it from the auxiliary vector, where other
 * runtimes find it. The wrappers of clock_gettime and gettimeofday still use the vDSO.
 */
#ifndef SHIM_KERNEL_VDSO_H
#define SHIM_KERNEL_VDSO_H

#include <stdint.h>
#include <time.h>

/* Call before main, while there is one thread. */
void sr_vdso_hide(void);

/* The vDSO's clock_gettime, which reads coarse clocks without the time-stamp counter.  NULL: it has none. */
int (*sr_vdso_find_clock(void))(clockid_t, struct timespec *);

/* Makes clock_gettime or gettimeofday in the fastest way. -errno. */
long sr_vdso_call(long nr, uint64_t a, uint64_t b);

#endif
