/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mpi_data.c: bytes that nobody can guess, sent around a ring of MPI processes by messages and by puts; for a recording
 * that leaves out what others send (mpicc, mpirun; tests/e2e/local/order_stacks.py).
 *
 *   mpi_data [ROUNDS]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

enum { WORDS = 500, PUT_WORDS = 2000 };

/* What lies in the window: a state for the putting neighbour, and the place for what it puts. */
static uint64_t state, *window_memory;
static MPI_Win window;
static int rank, ranks;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void fill(uint64_t *words, int n)
{
	for (int i = 0; i < n; i++)
		words[i] = next();
}

/* What has come decides what is sent from here on. */
static void take(const uint64_t *words, int n)
{
	for (int i = 0; i < n; i++)
		state = state * 6364136223846793005u + words[i] + 1;
	if (!state)
		state = 1;
}

static void pass_message(void)
{
	static uint64_t out[WORDS], in[WORDS];

	fill(out, WORDS);
	MPI_Sendrecv(out, WORDS, MPI_UINT64_T, (rank + 1) % ranks, 1, in, WORDS, MPI_UINT64_T,
		     (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	take(in, WORDS);
}

static void put(void)
{
	static uint64_t out[PUT_WORDS];

	fill(out, PUT_WORDS);
	MPI_Win_fence(0, window);
	MPI_Put(out, PUT_WORDS, MPI_UINT64_T, (rank + 1) % ranks, 0, PUT_WORDS, MPI_UINT64_T, window);
	MPI_Win_fence(0, window);
	take(window_memory, PUT_WORDS);
}

int main(int argc, char *argv[])
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	state = 88172645463325252u + (uint64_t)rank;
	MPI_Win_allocate(PUT_WORDS * sizeof(uint64_t), sizeof(uint64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
			 &window_memory, &window);
	for (int i = 0; i < rounds; i++) {
		pass_message();
		put();
	}
	printf("mpi_data: rank %d has %016llx\n", rank, (unsigned long long)state);
	MPI_Win_free(&window);
	MPI_Finalize();
	return 0;
}
