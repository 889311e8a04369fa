/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mpi_windows.c: the kinds of MPI-3's windows and synchronisation that mpi_rma leaves out, each with an
 * answer that is known: dynamic and shared windows, lock_all with flush, post-start-complete-wait, compare and
 * swap, get_accumulate; with messages and collectives in between.
 *
 *   mpi_windows [ROUNDS [KIND...]]      KIND: dynamic shared passive active messages
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "words.h"

static int rank, ranks;

static int right_of(void)
{
	return (rank + 1) % ranks;
}

static int left_of(void)
{
	return (rank + ranks - 1) % ranks;
}

/* Memory is attached and detached in each round; peers are told where it is. */
static bool dynamic(int rounds)
{
	MPI_Win window;
	bool right = true;

	MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	for (int round = 0; round < rounds; round++) {
		long *memory = calloc(WORDS, sizeof(long)), out[WORDS];
		MPI_Aint mine, theirs;

		MPI_Win_attach(window, memory, WORDS * sizeof(long));
		MPI_Get_address(memory, &mine);
		MPI_Sendrecv(&mine, 1, MPI_AINT, left_of(), 0, &theirs, 1, MPI_AINT, right_of(), 0, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		for (int i = 0; i < WORDS; i++)
			out[i] = element(rank, round, i);
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right_of(), 0, window);
		MPI_Put(out, WORDS, MPI_LONG, right_of(), theirs, WORDS, MPI_LONG, window);
		MPI_Win_unlock(right_of(), window);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
		right = same(memory, left_of(), round) && right;
		MPI_Win_unlock(rank, window);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_detach(window, memory);
		free(memory);
	}
	MPI_Win_free(&window);
	return right;
}

/* By plain loads and stores to the neighbour's part. */
static bool shared(int rounds)
{
	long *mine, *theirs;
	MPI_Aint size;
	MPI_Win window;
	int unit;
	bool right = true;

	MPI_Win_allocate_shared(WORDS * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
	MPI_Win_shared_query(window, right_of(), &size, &unit, &theirs);
	MPI_Win_lock_all(0, window);
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < WORDS; i++)
			theirs[i] = element(rank, round, i);
		MPI_Win_sync(window);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_sync(window);
		right = same(mine, left_of(), round) && right;
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
	return right;
}

/*
 * A lock by compare and swap, and a sum that each adds to and fetches.  OpenMPI's rank that tries in vain at its own
 * memory makes no progress for others, who hang, 8 times of 14 without a recording: so MPI is asked for messages.
 */
static bool passive(int rounds)
{
	const long one = 1, none = 0;
	int is_there;
	long *memory, before, value, sum = 0;
	MPI_Win window;
	bool right;

	MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
	memory[0] = memory[1] = 0;
	MPI_Win_unlock(rank, window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	for (int round = 0; round < rounds; round++) {
		do {
			MPI_Compare_and_swap(&one, &none, &before, MPI_LONG, 0, 0, window);
			MPI_Win_flush(0, window);
			MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
		} while (before);
		MPI_Get_accumulate(&one, 1, MPI_LONG, &value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, window);
		MPI_Win_flush(0, window);
		sum += value;
		MPI_Fetch_and_op(&none, &before, MPI_LONG, 0, 0, MPI_REPLACE, window);
		MPI_Win_flush(0, window);
	}
	MPI_Win_unlock_all(window);
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	right = sum == (long)rounds * ranks * ((long)rounds * ranks - 1) / 2;
	MPI_Win_free(&window);
	return right;
}

/* Post, start, complete, wait, over memory of the program's own. */
static bool active(int rounds)
{
	static long memory[WORDS], out[WORDS];
	int right_rank = right_of(), left_rank = left_of();
	MPI_Group world, to, from;
	MPI_Win window;
	bool right = true;

	MPI_Win_create(memory, sizeof(memory), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &right_rank, &to);
	MPI_Group_incl(world, 1, &left_rank, &from);
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < WORDS; i++)
			out[i] = element(rank, round, i);
		MPI_Win_post(from, 0, window);
		MPI_Win_start(to, 0, window);
		MPI_Put(out, WORDS, MPI_LONG, right_rank, 0, WORDS, MPI_LONG, window);
		MPI_Win_complete(window);
		MPI_Win_wait(window);
		right = same(memory, left_rank, round) && right;
	}
	MPI_Group_free(&from);
	MPI_Group_free(&to);
	MPI_Group_free(&world);
	MPI_Win_free(&window);
	return right;
}

/* Short and long messages, with and without waiting for their receive, and collectives. */
static bool messages(int rounds)
{
	enum { LONG_WORDS = 64 * WORDS };
	static long out[LONG_WORDS], in[LONG_WORDS];
	bool right = true;

	for (int round = 0; round < rounds; round++) {
		int n = round % 2 ? LONG_WORDS : WORDS;
		MPI_Request requests[2];
		long sum = 0, all[64];

		for (int i = 0; i < n; i++)
			out[i] = element(rank, round, i);
		MPI_Irecv(in, n, MPI_LONG, MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, n, MPI_LONG, right_of(), round, MPI_COMM_WORLD, &requests[1]);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
		right = same(in, left_of(), round) && right;
		MPI_Allgather(out, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD);
		for (int i = 0; i < ranks; i++)
			sum += all[i];
		for (int i = 0; i < ranks; i++)
			sum -= element(i, round, 0);
		MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
		right = !sum && right;
	}
	return right;
}

static const struct kind {
	const char *name;
	bool (*run)(int rounds);
} kinds[] = {{"messages", messages}, {"passive", passive}, {"active", active}, {"shared", shared}, {"dynamic", dynamic}};

static bool is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc <= 2;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 3, wrong = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		bool right;

		if (!is_wanted(kinds[i].name, argc, argv))
			continue;
		right = kinds[i].run(rounds);
		wrong += !right;
		printf("mpi_windows: rank %d of %d: %s %s\n", rank, ranks, kinds[i].name, right ? "right" : "wrong");
	}
	fflush(stdout);
	MPI_Finalize();
	return wrong != 0;
}
