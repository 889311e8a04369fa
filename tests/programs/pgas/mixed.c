/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mixed.c: all that a rank puts into others' memory depends on all that came into it: the time, results of atomics, what
 * it fetched, and what it found in its own memory.
 *
 *   mixed [ROUNDS]
 */
#include <time.h>

#include "pgas/internal.h"

#define WORDS 32

struct board {
	uint64_t counter, own[WORDS], from_before[WORDS];
};

static struct board *board;
static uint64_t *fetched, *source;
static uint64_t state = 1;

static void take(uint64_t value)
{
	state = (state ^ value) * 0x9e3779b97f4a7c15ull + 1;
}

static void fill(uint64_t *words)
{
	uint64_t random = state;

	for (int i = 0; i < WORDS; i++)
		words[i] = pgas_random(&random);
}

static void take_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	take((uint64_t)now.tv_nsec);
}

int main(int argc, char **argv)
{
	long rounds = pgas_argument(argc, argv, 1, 50, 1, "mixed [ROUNDS]");
	int next;

	pgas_start(1 << 16, 1 << 16);
	next = (pgas_rank() + 1) % pgas_ranks();
	state += (uint64_t)pgas_rank();
	board = pgas_shared(sizeof(*board));
	fetched = pgas_private(WORDS * sizeof(*fetched));
	source = pgas_private(WORDS * sizeof(*source));
	for (long i = 0; i < rounds; i++) {
		take_time();
		take(pgas_fetch_add(0, &board->counter, 1 + state % 7));
		fill(board->own);
		fill(source);
		pgas_put(next, board->from_before, source, sizeof(board->from_before));
		pgas_barrier();
		pgas_get(next, fetched, board->own, sizeof(board->own));
		for (int k = 0; k < WORDS; k++)
			take(fetched[k] ^ board->from_before[k]);
		pgas_barrier();
	}
	return pgas_end(pgas_result(true, "%016llx after %ld rounds", (unsigned long long)state, rounds));
}
