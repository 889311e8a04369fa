/* SPDX-License-Identifier: BSD-2-Clause */
/* real.h: the libraries behind the wrappers. */
#ifndef SHIM_REAL_H
#define SHIM_REAL_H

#include <stdbool.h>

/* Allocates nothing, unlike a dlopen: before the arenas are there, that would be the program's
 * memory. */
bool sr_libibverbs_is_loaded(void);

/* The function that the wrapper of an exported call stands in for; NULL while there is none. */
struct sr_call_desc;
void *sr_real_function(const struct sr_call_desc *d);

/*
 * The next definition of a libc function, for wrappers made by hand:
 *	SR_NEXT(next, "puts");
 *	int (*real)(const char *) = (int (*)(const char *))sr_next(&next);
 */
struct sr_next_function {
	const char *name;
	void *_Atomic function;
};

#define SR_NEXT(variable, symbol)                                                                  \
	static struct sr_next_function variable                                                    \
	    __attribute__((section("sr_nexts"), used, aligned(16))) = {symbol, NULL}

void *sr_next(struct sr_next_function *next);

/*
 * Finds all functions of libc that wrappers stand for, before the program runs:
 * a look-up later on would end the life of what dlerror has told the program.
 */
void sr_look_up_libc(void);

#endif
