/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vdso.h: libc asks the kernel for the time.
 *
 * The vDSO answers without a system call, so what libc asks for its own use (timeouts, numbers
 * derived from the time) would escape the system-call trap on some machines; on others the
 * vDSO itself makes system calls.  So where there is a trap, libc's pointers into the vDSO are
 * cleared, and libc makes the system call.  The wrappers of clock_gettime and gettimeofday
 * still use the vDSO.
 */
#ifndef SHIM_KERNEL_VDSO_H
#define SHIM_KERNEL_VDSO_H

#include <stdint.h>

/* Before main, while there is one thread. */
void sr_vdso_hide(void);

/* clock_gettime or gettimeofday, by the fastest way: -errno. */
long sr_vdso_call(long nr, uint64_t a, uint64_t b);

#endif
