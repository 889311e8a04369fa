/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mpi_rma.c: MPI-3's one-sided operations, each with an answer that is known; for recording a
 * real communication library (mpicc, mpirun; tests/e2e/rxe/stacks.py).
 *
 *   mpi_rma [ROUNDS]
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

#include "words.h"

static int rank, ranks;
static MPI_Win window;
static long *memory;

/* Where what lies in everybody's exposed region. */
enum {
	COUNTER,   /* fetch_and_op */
	PROTECTED, /* changed by get and put under a lock */
	SUM,       /* accumulate */
	RING,      /* WORDS from the left neighbour */
	EXPOSED_WORDS = RING + WORDS
};

/* Puts to the right neighbour between fences, and gets it back from there. */
static bool ring(int round)
{
	static long out[WORDS], back[WORDS];
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	bool arrived;

	for (int i = 0; i < WORDS; i++)
		out[i] = element(rank, round, i);
	MPI_Win_fence(0, window);
	MPI_Put(out, WORDS, MPI_LONG, right, RING, WORDS, MPI_LONG, window);
	MPI_Win_fence(0, window);
	arrived = same(memory + RING, left, round);
	MPI_Get(back, WORDS, MPI_LONG, right, RING, WORDS, MPI_LONG, window);
	MPI_Win_fence(0, window);
	return arrived && same(back, rank, round);
}

/* Everybody adds to everybody's sum. */
static void accumulate(int round)
{
	long mine = rank + round;

	MPI_Win_fence(0, window);
	for (int to = 0; to < ranks; to++)
		MPI_Accumulate(&mine, 1, MPI_LONG, to, SUM, 1, MPI_LONG, MPI_SUM, window);
	MPI_Win_fence(0, window);
}

static long ticket(void)
{
	static const long one = 1;
	long before;

	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
	MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, COUNTER, MPI_SUM, window);
	MPI_Win_unlock(0, window);
	return before;
}

/* Not atomic by itself: the exclusive lock makes it so. */
static void add_under_lock(void)
{
	long value;

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, ranks - 1, 0, window);
	MPI_Get(&value, 1, MPI_LONG, ranks - 1, PROTECTED, 1, MPI_LONG, window);
	MPI_Win_flush(ranks - 1, window);
	value++;
	MPI_Put(&value, 1, MPI_LONG, ranks - 1, PROTECTED, 1, MPI_LONG, window);
	MPI_Win_unlock(ranks - 1, window);
}

/* The tickets of all ranks together are 0, 1, ... each once: so is their sum. */
static bool tickets_right(long mine, int rounds)
{
	long sum, n = (long)rounds * ranks;

	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	return sum == n * (n - 1) / 2;
}

static bool sums_right(int rounds)
{
	long expected = 0;

	for (int round = 0; round < rounds; round++)
		for (int from = 0; from < ranks; from++)
			expected += from + round;
	return memory[SUM] == expected;
}

static bool protected_right(int rounds)
{
	long value;

	MPI_Win_lock(MPI_LOCK_SHARED, ranks - 1, 0, window);
	MPI_Get(&value, 1, MPI_LONG, ranks - 1, PROTECTED, 1, MPI_LONG, window);
	MPI_Win_unlock(ranks - 1, window);
	return value == (long)rounds * ranks;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	long tickets = 0;
	bool right = true;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Win_allocate(EXPOSED_WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
			 &memory, &window);
	for (int i = 0; i < EXPOSED_WORDS; i++)
		memory[i] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	for (int round = 0; round < rounds; round++) {
		right = ring(round) && right;
		accumulate(round);
		tickets += ticket();
		add_under_lock();
	}
	MPI_Barrier(MPI_COMM_WORLD);
	right = tickets_right(tickets, rounds) && right;
	right = sums_right(rounds) && right;
	right = protected_right(rounds) && right;
	printf("mpi_rma: rank %d of %d, %d rounds: %s\n", rank, ranks, rounds,
	       right ? "right" : "wrong");
	/* What follows may hang, in OpenMPI's own fence (tests/e2e/rxe/stacks.py). */
	fflush(stdout);
	MPI_Win_free(&window);
	MPI_Finalize();
	return right ? 0 : 1;
}
