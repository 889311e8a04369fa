/* SPDX-License-Identifier: BSD-2-Clause */
/* real.h: the libraries behind the wrappers. */
#ifndef SHIM_REAL_H
#define SHIM_REAL_H

#include <stdbool.h>

/* Allocates nothing, unlike a dlopen: before the arenas are there, that would be the program's
 * memory. */
bool sr_libibverbs_is_loaded(void);

/* The next definition of a libc function, looked up once; libc has it. */
void *sr_next(const char *name, void *_Atomic *cache);

#endif
