/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mcop.c: the cheapest order of multiplying a chain of matrices, by dynamic programming.
 *
 *   mcop [MATRICES [SEED]]
 *
 * The costs of all subchains are a triangular table, spread over the ranks by chance. One diagonal
 * after the other, each rank works out its own cells, for which it gets the cells of shorter chains
 * from their owners. The optimum is compared with that of each rank alone, and for the chains of
 * which it is known (SEED 0: the six matrices of Cormen et al.; all square but for one thin place
 * otherwise, every second seed) with that.
 */
#include <stdlib.h>
#include <string.h>

#include "pgas/pgas.h"

#define TEXTBOOK_MATRICES 6
#define TEXTBOOK_OPTIMUM  15125
#define SQUARE            20

static long n;
static uint64_t *sizes; /* matrix i is sizes[i] by sizes[i + 1] */
static uint64_t *table; /* n * n, every rank's own cells in its own copy */
static uint64_t *row, *column;
static uint64_t seed;

static uint64_t *cell(uint64_t *t, long i, long j)
{
	return &t[i * n + j];
}

static int owner(long i, long j)
{
	uint64_t state = seed * 7919 + (uint64_t)(i * n + j);

	return (int)(pgas_random(&state) % (uint64_t)pgas_ranks());
}

static bool planted(void)
{
	return seed > 0 && seed % 2 == 0;
}

static void make_sizes(void)
{
	static const uint64_t textbook[] = {30, 35, 15, 5, 10, 20, 25};
	uint64_t state = seed;

	for (long i = 0; i <= n; i++)
		sizes[i] = planted() ? SQUARE : 1 + pgas_random(&state) % 100;
	if (planted())
		sizes[n / 2] = 1;
	if (seed == 0)
		memcpy(sizes, textbook, sizeof(textbook));
}

static uint64_t cost(long i, long k, long j)
{
	return sizes[i] * sizes[k + 1] * sizes[j + 1];
}

/* The shorter chains of i..j: those that begin at i in row, those that end at j in column. */
static void get_shorter(long i, long j)
{
	for (long k = i; k < j; k++) {
		pgas_start_get(owner(i, k), &row[k], cell(table, i, k), sizeof(uint64_t));
		pgas_start_get(owner(k + 1, j), &column[k], cell(table, k + 1, j),
			       sizeof(uint64_t));
	}
	pgas_quiet();
}

static uint64_t best(long i, long j)
{
	uint64_t least = UINT64_MAX;

	for (long k = i; k < j; k++) {
		uint64_t c = row[k] + column[k] + cost(i, k, j);

		if (c < least)
			least = c;
	}
	return least;
}

static void together(void)
{
	for (long length = 1; length < n; length++) {
		for (long i = 0; i + length < n; i++) {
			if (owner(i, i + length) != pgas_rank())
				continue;
			get_shorter(i, i + length);
			*cell(table, i, i + length) = best(i, i + length);
		}
		pgas_barrier();
	}
}

static uint64_t alone(void)
{
	uint64_t *t = calloc((size_t)(n * n), sizeof(*t)), optimum;

	if (!t)
		pgas_fail("no memory for a table");
	for (long length = 1; length < n; length++)
		for (long i = 0; i + length < n; i++) {
			for (long k = i; k < i + length; k++) {
				row[k] = *cell(t, i, k);
				column[k] = *cell(t, k + 1, i + length);
			}
			*cell(t, i, i + length) = best(i, i + length);
		}
	optimum = *cell(t, 0, n - 1);
	free(t);
	return optimum;
}

/* With one dimension of 1 every multiplication costs SQUARE squared at least, and can do with that.
 */
static bool as_known(uint64_t optimum)
{
	if (seed == 0)
		return optimum == TEXTBOOK_OPTIMUM;
	if (planted() && n > 1)
		return optimum == (uint64_t)(n - 1) * SQUARE * SQUARE;
	return true;
}

int main(int argc, char **argv)
{
	static const char usage[] = "mcop [MATRICES [SEED]]";
	uint64_t optimum;

	n = pgas_argument(argc, argv, 1, 32, 2, usage);
	seed = (uint64_t)pgas_argument(argc, argv, 2, 1, 0, usage);
	if (seed == 0)
		n = TEXTBOOK_MATRICES;
	pgas_start((size_t)(n * n) * sizeof(*table), 2 * (size_t)n * sizeof(*row) + 128);
	table = pgas_shared((size_t)(n * n) * sizeof(*table));
	row = pgas_private((size_t)n * sizeof(*row));
	column = pgas_private((size_t)n * sizeof(*column));
	sizes = malloc((size_t)(n + 1) * sizeof(*sizes));
	if (!sizes)
		pgas_fail("no memory for sizes");
	make_sizes();
	pgas_barrier();
	together();
	pgas_get(owner(0, n - 1), &optimum, cell(table, 0, n - 1), sizeof(optimum));
	return pgas_end(pgas_result(optimum == alone() && as_known(optimum),
				    "mcop: %ld matrices by %llu multiplications", n,
				    (unsigned long long)optimum));
}
