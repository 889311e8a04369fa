/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * blocks.c: ranks put blocks of bytes into each other's memory, and what they put depends on all that they have read
 * there.
 *
 *   blocks [ROUNDS [RACING]]
 *
 * In each round a rank puts some blocks into its part of each peer's memory and a number behind them, waits for the
 * numbers of the others, and reads their blocks.  With RACING each rank also puts blocks into a part that all share, over
 * each other and without waiting, where the owner reads and stores at any time.
 */
#include <string.h>

#include "pgas/internal.h"

#define PART       32768
#define MOST_RANKS 16
#define BLOCKS     4

struct inbox {
	uint8_t part[MOST_RANKS][PART];
	uint8_t common[PART];
	uint64_t round[MOST_RANKS];
};

static struct inbox *box;
static uint8_t *source;
static uint64_t hash = 1, state = 1;

static void see(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * 0x100000001b3ull;
}

static uint64_t any(uint64_t below)
{
	return pgas_random(&state) % below;
}

/* A block of random size and bytes; some of them zero, as in numbers. */
static size_t fill(uint8_t *p)
{
	size_t n = 1 + any(any(3) ? 300 : 9000);
	uint64_t bytes = hash;

	for (size_t i = 0; i < n; i++)
		p[i] = i % 8 > 5 ? 0 : (uint8_t)(pgas_random(&bytes) >> 7);
	return n;
}

static void put_blocks(int to, uint8_t *place, uint32_t slot)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		uint8_t *from = source + (slot * BLOCKS + i) * 16384;
		size_t n = fill(from);

		pgas_start_put(to, place + any(PART - n), from, n);
	}
}

static void put_round(int to, uint64_t round, uint32_t slot)
{
	uint64_t *from = (uint64_t *)(source + (slot * BLOCKS + 1) * 16384 - 64);

	put_blocks(to, box->part[pgas_rank()], slot);
	*from = round;
	pgas_start_put(to, &box->round[pgas_rank()], from, sizeof(*from));
}

static void read_part(int of)
{
	size_t from = any(PART), n = any(PART - from);

	see(box->part[of] + from, any(4) ? n : n % 64);
}

static void race(int ranks)
{
	int to = (int)any((uint64_t)ranks);
	size_t from = any(PART), n = any(PART - from);

	pgas_quiet();
	if (to != pgas_rank())
		put_blocks(to, box->common, (uint32_t)ranks);
	see(box->common + from, n % 2048);
	if (!any(4))
		memset(box->common + from, (int)any(256), n % 512);
}

int main(int argc, char **argv)
{
	const char *usage = "blocks [ROUNDS [RACING]]";
	long rounds = pgas_argument(argc, argv, 1, 20, 1, usage);
	long racing = pgas_argument(argc, argv, 2, 0, 0, usage);
	int ranks, me;

	pgas_start(2 << 20, 4 << 20);
	ranks = pgas_ranks();
	me = pgas_rank();
	state = hash = (uint64_t)me + 1;
	box = pgas_shared(sizeof(*box));
	source = pgas_private((size_t)(ranks + 1) * BLOCKS * 16384);
	pgas_barrier();
	for (long round = 1; round <= rounds; round++) {
		for (int to = 0; to < ranks; to++)
			if (to != me)
				put_round(to, (uint64_t)round, (uint32_t)to);
		for (long i = 0; i < racing; i++)
			race(ranks);
		for (int from = 0; from < ranks; from++)
			if (from != me)
				pgas_wait_for(&box->round[from], (uint64_t)round);
		for (int from = 0; from < ranks; from++)
			if (from != me)
				read_part(from);
		pgas_barrier();
	}
	pgas_barrier();
	return pgas_end(pgas_result(true, "%016llx after %ld rounds", (unsigned long long)hash, rounds));
}
