/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shmem_rma.c: OpenSHMEM's puts, gets, atomics and waits, each with an answer that is known; for
 * recording a real communication library (oshcc, oshrun; tests/e2e/rxe/stacks.py).
 *
 *   shmem_rma [ROUNDS]
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <shmem.h>

#include "words.h"

static int me, n;
static long *ring, *flag, *counter, *largest;

/* Data and then a flag to the right neighbour, who waits for the flag, and reads memory. */
static bool pass_on(int round)
{
	static long out[WORDS], back[WORDS];
	int right = (me + 1) % n, left = (me + n - 1) % n;
	bool arrived;

	for (int i = 0; i < WORDS; i++)
		out[i] = element(me, round, i);
	shmem_long_put(ring, out, WORDS, right);
	shmem_fence();
	shmem_long_p(flag, round + 1, right);
	shmem_long_wait_until(flag, SHMEM_CMP_GE, round + 1);
	arrived = same(ring, left, round);
	shmem_long_get(back, ring, WORDS, right);
	/* Before anybody writes the next round. */
	shmem_barrier_all();
	return arrived && same(back, me, round);
}

/* The largest number that anybody offered, by compare-swap. */
static void offer(long number)
{
	long seen = shmem_long_atomic_fetch(largest, n - 1), before;

	while (seen < number) {
		before = shmem_long_atomic_compare_swap(largest, seen, number, n - 1);
		if (before == seen)
			break;
		seen = before;
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	bool right = true;

	shmem_init();
	me = shmem_my_pe();
	n = shmem_n_pes();
	ring = shmem_calloc(WORDS, sizeof(long));
	flag = shmem_calloc(1, sizeof(long));
	counter = shmem_calloc(1, sizeof(long));
	largest = shmem_calloc(1, sizeof(long));
	shmem_barrier_all();
	for (int round = 0; round < rounds; round++) {
		right = pass_on(round) && right;
		shmem_long_atomic_fetch_add(counter, me + round, 0);
		offer((long)round * n + me);
	}
	shmem_barrier_all();
	right = right && shmem_long_g(counter, 0) ==
			     (long)rounds * n * (n - 1) / 2 + (long)n * rounds * (rounds - 1) / 2;
	right = right && shmem_long_g(largest, n - 1) == (long)rounds * n - 1;
	printf("shmem_rma: rank %d of %d, %d rounds: %s\n", me, n, rounds,
	       right ? "right" : "wrong");
	fflush(stdout);
	shmem_barrier_all();
	shmem_finalize();
	return right ? 0 : 1;
}
