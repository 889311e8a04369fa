/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter.h: the program restricts its system calls (seccomp).
 *
 * The recorder makes calls of its own in the program's threads.  Where the filter would not allow
 * them, the kernel would kill the program for what it did not do.  So the recording ends there.
 */
#ifndef SHIM_CALLS_TRAP_FILTER_H
#define SHIM_CALLS_TRAP_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* Would this filter (struct sock_fprog) forbid what the recorder needs?  Not if it is unreadable. */
bool sr_filter_forbids(const void *program);

#endif
