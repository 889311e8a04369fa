/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * refetches.c: the same memory is changed again and again, so that what is found there may be of one of many requests.
 *
 *   refetches CASE [TIMES]
 *   refetches       lists the cases
 */
#include <stdio.h>
#include <string.h>

#include "pgas/internal.h"

#define BLOCK 400000 /* bytes */
#define EVERY 10     /* fetches: then the block is filled anew */

static char *block; /* of each rank */
static uint64_t *turn;
static long times;

static bool is(int rank)
{
	return pgas.rank == rank;
}

static void fill(char *bytes, size_t n, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t word = pgas_random(&seed);

		memcpy(bytes + i, &word, 8);
	}
}

static uint64_t sum_up(uint64_t sum, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum = sum * 31 + (uint8_t)bytes[i];
	return sum;
}

static void report(uint64_t sum)
{
	pgas_barrier();
	printf("rank %d found %016llx\n", pgas.rank, (unsigned long long)sum);
}

/* Rank 1 READs the block of rank 0 into its own, which peers may write. */
static void block_by(bool clears, long in_flight)
{
	uint64_t sum = 0;

	for (long i = 0; i < times; i++) {
		if (i % EVERY == 0) {
			pgas_barrier();
			if (is(0))
				fill(block, BLOCK, (uint64_t)i);
			pgas_barrier();
		}
		if (is(1)) {
			if (clears)
				memset(block, 0, BLOCK);
			pgas_start_get(0, block, block, BLOCK);
			if ((i + 1) % in_flight == 0)
				pgas_quiet();
			sum = sum_up(sum, block, BLOCK);
		}
	}
	report(sum);
}

static void block_again(void)
{
	block_by(false, 1);
}

static void block_cleared(void)
{
	block_by(true, 1);
}

static void block_crowded(void)
{
	block_by(false, 10);
}

/* One rank tells the other that it may go on, who waits for that. */
static void hand_over(uint64_t round)
{
	pgas_put(1 - pgas.rank, turn, &round, 8);
}

/* Rank 0 puts short pieces to the same place of rank 1, which loads each; or all of them, before it loads the last one. */
static void pieces_by(long in_flight)
{
	char *piece = pgas_private(64);
	uint64_t sum = 0;

	for (long i = 0; i < times; i++) {
		if (is(0)) {
			fill(piece, 64, (uint64_t)i);
			pgas_put(1, block + 8 * (i % 4), piece, 32);
		}
		if ((i + 1) % in_flight)
			continue;
		if (is(0)) {
			hand_over((uint64_t)i + 1);
			pgas_wait_for(turn, (uint64_t)i + 1);
		} else {
			pgas_wait_for(turn, (uint64_t)i + 1);
			sum = sum_up(sum, block, 64);
			hand_over((uint64_t)i + 1);
		}
	}
	report(sum);
}

static void pieces(void)
{
	pieces_by(1);
}

static void pieces_crowded(void)
{
	pieces_by(50);
}

/* Rank 1 READs words that rank 0 changes, into the same place. */
static void words(void)
{
	uint64_t sum = 0;

	for (long i = 0; i < times; i++) {
		if (is(0)) {
			fill(block, 64, (uint64_t)i / EVERY);
			hand_over((uint64_t)i + 1);
			pgas_wait_for(turn, (uint64_t)i + 1);
		} else {
			pgas_wait_for(turn, (uint64_t)i + 1);
			pgas_get(0, block, block, 64);
			sum = sum_up(sum, block, 64);
			hand_over((uint64_t)i + 1);
		}
	}
	report(sum);
}

static const struct pgas_case cases[] = {
    {"block", block_again}, {"block-cleared", block_cleared},	{"block-crowded", block_crowded},
    {"pieces", pieces},	    {"pieces-crowded", pieces_crowded}, {"words", words},
};

int main(int argc, char **argv)
{
	const struct pgas_case *chosen = pgas_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));

	times = pgas_argument(argc, argv, 2, 200, 1, "refetches CASE [TIMES]");
	pgas_start(BLOCK + 65536, 65536);
	block = pgas_shared(BLOCK);
	turn = pgas_shared(8);
	pgas_barrier();
	chosen->run();
	return pgas_end(pgas_result(true, "%s", argv[1]));
}
