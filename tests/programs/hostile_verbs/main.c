/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostile_verbs: what programs do with verbs that a recorder trips over, a case per
 * argument, on the stand-in for libibverbs.  Each prints the same bare and recorded, and
 * again in its replay.
 */
#include "hostile_verbs/shared.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	const struct hostile_case *subjects[] = {requests_cases, threads_cases, signals_cases,
						 processes_cases, exposed_cases, stacks_cases};

	for (size_t s = 0; s < sizeof(subjects) / sizeof(subjects[0]); s++) {
		for (const struct hostile_case *c = subjects[s]; c->name; c++) {
			if (argc > 1 && !strcmp(argv[1], c->name)) {
				open_all();
				c->run();
				return 3;
			}
			if (argc < 2)
				puts(c->name);
		}
	}
	return argc > 1;
}
