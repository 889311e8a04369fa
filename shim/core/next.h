/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * next.h: the definition of a libc function that follows the shim's, for wrappers
 * written by hand:
 *	SR_NEXT(next, "puts");
 *	int (*real)(const char *) = (int (*)(const char *))sr_next(&next);
 */
#ifndef SHIM_CORE_NEXT_H
#define SHIM_CORE_NEXT_H

#include <stdatomic.h>

struct sr_next_function {
	const char *name;
	void *_Atomic function;
};

#define SR_NEXT(variable, symbol)                                                                  \
	static struct sr_next_function variable                                                    \
	    __attribute__((section("sr_nexts"), used, aligned(16))) = {symbol, NULL}

void *sr_next(struct sr_next_function *next);

/*
 * Finds all functions before the program runs: a later lookup would clear the message that
 * dlerror has for the program.
 */
void sr_next_find_all(void);

/* version NULL: the version that a program is linked to today. */
void *sr_next_find(const char *name, const char *version, void *_Atomic *cache);

#endif
