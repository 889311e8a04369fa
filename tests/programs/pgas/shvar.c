/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shvar.c: ranks race for a variable of one of them: the program of SReplay's table 3.
 *
 *   shvar [N [RACERS [HOME]]]
 *
 * The first rank writes its numbers 1, 2, ... N into the variable, N times. The last RACERS - 1
 * ranks (1, if not said otherwise) read it and write theirs, N times. The variable is rank HOME's:
 * without it rank 1's, or with two ranks that of rank 0. A value says who wrote it, so that a
 * reader can tell: 0, which nobody wrote, before all others; its own last one; or one of another
 * racer's that is not older than the last it found of that one.
 *
 * Soft-RoCE copies bytes, so that one WRITE may be found half written, or mixed with another
 * one for good. So a value is there twice, in both halves; where they differ it says nothing.
 */
#include "pgas/pgas.h"

static int home;
static uint64_t *variable;

static uint64_t value_of(int rank, uint64_t number)
{
	uint64_t half = number * PGAS_MAX_RANKS + (uint64_t)rank;

	return half << 32 | half;
}

static bool is_whole(uint64_t value)
{
	return value >> 32 == (uint32_t)value;
}

static uint64_t number_of(uint64_t value)
{
	return (uint32_t)value / PGAS_MAX_RANKS;
}

static void write_number(uint64_t number)
{
	uint64_t value = value_of(pgas_rank(), number);

	pgas_put(home, variable, &value, sizeof(value));
}

static bool write_numbers(uint64_t n)
{
	for (uint64_t i = 1; i <= n; i++)
		write_number(i);
	return true;
}

static bool read_and_write(uint64_t n)
{
	uint64_t found, newest[PGAS_MAX_RANKS] = {0};
	bool right = true;

	for (uint64_t i = 1; i <= n; i++) {
		uint64_t number, *last;

		pgas_get(home, &found, variable, sizeof(found));
		number = number_of(found);
		last = &newest[found % PGAS_MAX_RANKS];
		if (is_whole(found)) {
			right = right && number >= *last && number <= n && (found || i == 1);
			*last = number;
		}
		write_number(i);
		newest[pgas_rank()] = i;
	}
	return right;
}

int main(int argc, char **argv)
{
	static const char usage[] = "shvar [N [RACERS [HOME]]]";
	uint64_t n = (uint64_t)pgas_argument(argc, argv, 1, 5000, 1, usage), last;
	int racers = (int)pgas_argument(argc, argv, 2, 2, 2, usage);
	bool right = true;

	pgas_start(0, 0);
	home = (int)pgas_argument(argc, argv, 3, pgas_ranks() > 2 ? 1 : 0, 0, usage);
	if (racers > pgas_ranks() || home >= pgas_ranks())
		pgas_fail("not so many ranks");
	variable = pgas_shared(sizeof(*variable));
	pgas_barrier();
	if (pgas_rank() == 0)
		right = write_numbers(n);
	else if (pgas_rank() > pgas_ranks() - racers)
		right = read_and_write(n);
	pgas_barrier();
	pgas_get(home, &last, variable, sizeof(last));
	last = number_of(last);
	return pgas_end(pgas_result(right && last == n, "shvar: the last number is %llu",
				    (unsigned long long)last));
}
