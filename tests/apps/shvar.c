/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shvar.c: two ranks race for a variable of a third one: the program of SReplay's table 3.
 *
 *   shvar [N]
 *
 * The first rank writes 0, 1, ... N - 1 into the variable. The last rank reads it and writes the
 * same numbers. The variable is rank 1's, or with two ranks that of rank 0. What the reader may
 * find: its own last number, or one of the writer's that is not older than the last one it found.
 */
#include "pgas/pgas.h"

static int home;
static uint64_t *variable;

static bool write_numbers(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		pgas_put(home, variable, &i, sizeof(i));
	return true;
}

static bool read_and_write(uint64_t n)
{
	uint64_t found, newest = 0;
	bool right = true;

	for (uint64_t i = 0; i < n; i++) {
		pgas_get(home, &found, variable, sizeof(found));
		if (i == 0 || found != i - 1) {
			right = right && found >= newest && found < n;
			newest = found;
		}
		pgas_put(home, variable, &i, sizeof(i));
	}
	return right;
}

int main(int argc, char **argv)
{
	uint64_t n = (uint64_t)pgas_argument(argc, argv, 1, 5000, 1, "shvar [N]"), last;
	bool right = true;

	pgas_start(0, 0);
	home = pgas_ranks() > 2 ? 1 : 0;
	variable = pgas_shared(sizeof(*variable));
	pgas_barrier();
	if (pgas_rank() == 0)
		right = write_numbers(n);
	else if (pgas_rank() == pgas_ranks() - 1)
		right = read_and_write(n);
	pgas_barrier();
	pgas_get(home, &last, variable, sizeof(last));
	return pgas_end(pgas_result(right && last == n - 1, "shvar: the last number is %llu",
				    (unsigned long long)last));
}
