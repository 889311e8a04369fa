/* SPDX-License-Identifier: BSD-2-Clause */
/* check.h: ends the program, and says in which line, where something is not as it must be. */
#ifndef VERBS_CHECK_H
#define VERBS_CHECK_H

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

#endif
