/* SPDX-License-Identifier: BSD-2-Clause */
/* real.h: the libraries behind the wrappers. */
#ifndef SHIM_REAL_H
#define SHIM_REAL_H

#include <stdbool.h>

/* Allocates nothing, unlike a dlopen: before the arenas are there, that would be the program's
 * memory. */
bool sr_libibverbs_is_loaded(void);

/* A handle on libibverbs, or NULL while the process has not loaded it. */
void *sr_libibverbs(void);

/* The function that the wrapper of an exported call stands in for; NULL while there is none. */
struct sr_call_desc;
void *sr_real_function(const struct sr_call_desc *d);

/* The next definition of a libc function, looked up once; libc has it. */
void *sr_next(const char *name, void *_Atomic *cache);

#endif
