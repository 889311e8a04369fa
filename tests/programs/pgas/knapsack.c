/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * knapsack.c: the best value of things that a knapsack can hold, by dynamic programming.
 *
 *   knapsack race|corrected [THINGS [CAPACITY [PAUSE]]]
 *
 * The program of figure 1 of Park et al. ("Efficient data race detection for distributed memory
 * parallel programs", SC 2011), which has been homework at Berkeley for years, race included:
 * the things' weights and values are made by their owners, and the first row of the table is made
 * from those of thing 0, without a barrier between the two. A rank that is ahead of rank 0 finds
 * zeros. "corrected" has the barrier.
 *
 * Each rank does the same alone at the end. With the race the answer may be wrong, which is what it
 * is for. PAUSE: so many milliseconds come between what the others read and the barrier behind that. Had
 * they been there while rank 0 waits in the barrier before, that would order what is to race.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgas/pgas.h"

#define MAX_WEIGHT 50
#define MAX_VALUE  100

static long things, capacity, block, pause_ms;
/* Shared, thing i and column i of rank i % ranks, as UPC lays out arrays; each row has its own
 * table. */
static uint64_t *weights, *values, *total;

static int owner(long i)
{
	return (int)(i % pgas_ranks());
}

static uint64_t read_element(const uint64_t *array, long i)
{
	uint64_t value;

	pgas_get(owner(i), &value, &array[i / pgas_ranks()], sizeof(value));
	return value;
}

static uint64_t *own_element(uint64_t *array, long i)
{
	return &array[i / pgas_ranks()];
}

static uint64_t *row(long thing)
{
	return total + thing * block;
}

static void make_things(void)
{
	uint64_t state = (uint64_t)pgas_rank() + 17;

	for (long i = pgas_rank(); i < things; i += pgas_ranks()) {
		*own_element(weights, i) = 1 + pgas_random(&state) % MAX_WEIGHT;
		*own_element(values, i) = 1 + pgas_random(&state) % MAX_VALUE;
	}
}

static void first_row(void)
{
	uint64_t weight = read_element(weights, 0), value = read_element(values, 0);

	usleep(pgas_rank() ? (useconds_t)pause_ms * 1000 : 0);
	for (long c = pgas_rank(); c <= capacity; c += pgas_ranks())
		*own_element(row(0), c) = (uint64_t)c < weight ? 0 : value;
	pgas_barrier();
}

static void next_row(long thing)
{
	uint64_t weight = read_element(weights, thing), value = read_element(values, thing);
	uint64_t without, with;

	for (long c = pgas_rank(); c <= capacity; c += pgas_ranks()) {
		without = *own_element(row(thing - 1), c);
		with = 0;
		if ((uint64_t)c >= weight)
			with = value + read_element(row(thing - 1), c - (long)weight);
		*own_element(row(thing), c) = with > without ? with : without;
	}
	pgas_barrier();
}

static uint64_t build_table(void)
{
	first_row();
	for (long thing = 1; thing < things; thing++)
		next_row(thing);
	return read_element(row(things - 1), capacity);
}

static uint64_t alone(void)
{
	uint64_t *best = calloc((size_t)capacity + 1, sizeof(*best)), answer;

	if (!best)
		pgas_fail("no memory for a table");
	for (long i = 0; i < things; i++) {
		uint64_t weight = read_element(weights, i), value = read_element(values, i);

		for (long c = capacity; c >= (long)weight; c--)
			if (best[c - (long)weight] + value > best[c])
				best[c] = best[c - (long)weight] + value;
	}
	answer = best[capacity];
	free(best);
	return answer;
}

static bool wants_race(int argc, char **argv)
{
	if (argc < 2 || (strcmp(argv[1], "race") && strcmp(argv[1], "corrected"))) {
		fprintf(stderr, "usage: knapsack race|corrected [THINGS [CAPACITY [PAUSE]]]\n");
		exit(2);
	}
	return !strcmp(argv[1], "race");
}

int main(int argc, char **argv)
{
	static const char usage[] = "knapsack race|corrected [THINGS [CAPACITY [PAUSE]]]";
	bool race = wants_race(argc, argv);
	uint64_t best;

	things = pgas_argument(argc, argv, 2, 12, 1, usage);
	capacity = pgas_argument(argc, argv, 3, 100, 1, usage);
	pause_ms = pgas_argument(argc, argv, 4, 0, 0, usage);
	pgas_start((size_t)(things * (capacity + 2) + 2 * things + 64) * sizeof(uint64_t), 0);
	block = capacity / pgas_ranks() + 1;
	weights = pgas_shared((size_t)(things / pgas_ranks() + 1) * sizeof(*weights));
	values = pgas_shared((size_t)(things / pgas_ranks() + 1) * sizeof(*values));
	total = pgas_shared((size_t)(things * block) * sizeof(*total));
	pgas_barrier();
	make_things();
	if (!race)
		pgas_barrier();
	best = build_table();
	return pgas_end(pgas_result(best == alone(), "knapsack: %llu", (unsigned long long)best));
}
