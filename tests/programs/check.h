/* SPDX-License-Identifier: BSD-2-Clause */
/* check.h: what a program cannot do without; it ends, and says what or in which line, where something is not as it must be. */
#ifndef APPS_CHECK_H
#define APPS_CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x)                                                                                        \
	do {                                                                                            \
		if (!(x)) {                                                                             \
			fprintf(stderr, "%s: line %d\n", program_invocation_short_name, __LINE__); \
			exit(1);                                                                        \
		}                                                                                       \
	} while (0)

static inline void *check(void *p, const char *what)
{
	if (!p) {
		perror(what);
		exit(1);
	}
	return p;
}

#endif
