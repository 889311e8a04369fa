/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * readable.h: may the shim read memory that the program passes to a call? If the call would fail
 * with EFAULT, the recorder must not crash.
 *
 * This makes a system call that reads a byte of each page: not for the data path. Any thread.
 */
#ifndef SHIM_KERNEL_READABLE_H
#define SHIM_KERNEL_READABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Also true if the kernel does not say. */
bool sr_is_readable(const void *p, size_t n);

#endif
