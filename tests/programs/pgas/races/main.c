/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * races: small programs, each with a race or without, for `sreplay races`.
 *
 *   races CASE
 *   races             lists the cases
 */
#include <stdlib.h>

#include "races.h"

#define CASES_MOST 128

static const struct pgas_case *const subjects[] = {writes_cases, reads_cases, loads_cases, requests_cases, stores_cases};

static const struct pgas_case *choose(int argc, char **argv)
{
	static struct pgas_case all[CASES_MOST];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++)
		for (const struct pgas_case *c = subjects[i]; c->name; c++) {
			if (n == CASES_MOST)
				abort();
			all[n++] = *c;
		}
	return pgas_case(argc, argv, all, n);
}

int main(int argc, char **argv)
{
	const struct pgas_case *chosen = choose(argc, argv);

	pgas_start(sizeof(*shared) + 65536, 65536);
	shared = pgas_shared(sizeof(*shared));
	mine = pgas_private(BYTES);
	other = pgas_private(BYTES);
	fill(mine, 1 + (uint64_t)pgas.rank);
	fill(other, 100 + (uint64_t)pgas.rank);
	pgas_barrier();
	chosen->run();
	pgas_barrier();
	return pgas_end(pgas_result(true, "%s", argv[1]));
}
