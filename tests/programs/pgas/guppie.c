/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guppie.c: random updates of a table that is spread over all ranks (GUPS).
 *
 *   guppie [LOG2-OF-WORDS [UPDATES [PAUSE]]]
 *
 * Each rank makes UPDATES updates: it gets a word taken by chance, changes it by exclusive or, and
 * puts it back. That is a race, and a few updates may be lost, as the benchmark allows. At the end
 * each rank undoes by itself all updates of its own words; at most one word in a hundred may differ
 * from what it was at first.
 *
 * PAUSE: so many milliseconds behind its first updates, in which all others begin as well.
 */
#include <unistd.h>

#include "pgas/pgas.h"

#define BATCH        32 /* updates that are under way at once */
#define LOST_PERCENT 1

static uint64_t *table, *batch;
static uint64_t words; /* of each rank */
static long pause_ms;

struct place {
	int rank;
	uint64_t word;
};

static struct place place_of(uint64_t number)
{
	uint64_t index = number >> 8;

	return (struct place){(int)(index % (uint64_t)pgas_ranks()),
			      index / (uint64_t)pgas_ranks() % words};
}

static uint64_t seed_of(int rank)
{
	return 1000003 * (uint64_t)(rank + 1);
}

static void update(uint64_t updates)
{
	uint64_t state = seed_of(pgas_rank()), number[BATCH], n;
	struct place p[BATCH];

	for (uint64_t done = 0; done < updates; done += n) {
		n = updates - done < BATCH ? updates - done : BATCH;
		for (uint64_t i = 0; i < n; i++) {
			number[i] = pgas_random(&state);
			p[i] = place_of(number[i]);
			pgas_start_get(p[i].rank, &batch[i], &table[p[i].word], sizeof(*batch));
		}
		pgas_quiet();
		for (uint64_t i = 0; i < n; i++) {
			batch[i] ^= number[i];
			pgas_start_put(p[i].rank, &table[p[i].word], &batch[i], sizeof(*batch));
		}
		pgas_quiet();
		if (!done)
			usleep((useconds_t)pause_ms * 1000);
	}
}

static void undo(uint64_t updates)
{
	for (int rank = 0; rank < pgas_ranks(); rank++) {
		uint64_t state = seed_of(rank);

		for (uint64_t i = 0; i < updates; i++) {
			uint64_t number = pgas_random(&state);
			struct place p = place_of(number);

			if (p.rank == pgas_rank())
				table[p.word] ^= number;
		}
	}
}

static uint64_t first_value(uint64_t word)
{
	return word * (uint64_t)pgas_ranks() + (uint64_t)pgas_rank();
}

int main(int argc, char **argv)
{
	static const char usage[] = "guppie [LOG2-OF-WORDS [UPDATES [PAUSE]]]";
	uint64_t all = 1ull << pgas_argument(argc, argv, 1, 14, 6, usage);
	uint64_t updates = (uint64_t)pgas_argument(argc, argv, 2, 512, 1, usage), wrong = 0;

	pause_ms = pgas_argument(argc, argv, 3, 0, 0, usage);
	pgas_start(all * sizeof(*table), BATCH * sizeof(*batch));
	words = all / (uint64_t)pgas_ranks();
	table = pgas_shared(words * sizeof(*table));
	batch = pgas_private(BATCH * sizeof(*batch));
	for (uint64_t i = 0; i < words; i++)
		table[i] = first_value(i);
	pgas_barrier();
	update(updates);
	pgas_barrier();
	undo(updates);
	for (uint64_t i = 0; i < words; i++)
		wrong += table[i] != first_value(i);
	wrong = pgas_sum(wrong);
	return pgas_end(pgas_result(wrong * 100 <= all * LOST_PERCENT,
				    "guppie: %llu updates by each rank of %llu words",
				    (unsigned long long)updates, (unsigned long long)all));
}
