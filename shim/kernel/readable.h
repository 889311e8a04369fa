/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * readable.h: may the memory be read that the program hands to a call?  Where the
 * call would fail with EFAULT the recorder must not be what dies of it.
 *
 * A system call, which reads a byte of each page: not for the data path.  Any
 * thread.
 */
#ifndef SHIM_KERNEL_READABLE_H
#define SHIM_KERNEL_READABLE_H

#include <stdbool.h>
#include <stddef.h>

/* True as well where the kernel does not tell. */
bool sr_is_readable(const void *p, size_t n);

#endif
