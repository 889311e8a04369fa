/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vdso.h: libc asks the kernel for the time.
 *
 * The vDSO answers without a system call: what libc asks for itself (timeouts,
 * numbers that it makes of the time) would pass the system-call trap by, on some machines;
 * on others the vDSO itself makes system calls.  So where the system-call trap is, libc's
 * pointers into the vDSO are taken away: it makes the system call then.  The
 * wrappers of clock_gettime and gettimeofday go on using the vDSO.
 */
#ifndef SHIM_KERNEL_VDSO_H
#define SHIM_KERNEL_VDSO_H

#include <stdint.h>

/* Before main, while there is one thread. */
void sr_vdso_hide(void);

/* clock_gettime or gettimeofday, by the fastest way: -errno. */
long sr_vdso_call(long nr, uint64_t a, uint64_t b);

#endif
