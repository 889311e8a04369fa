/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mpi_files.c: MPI-IO on one file of all ranks: each reads what the others have written.  For recording a real communication
 * library (tests/e2e/local/roster.py).
 *
 *   mpi_files [ROUNDS [FILE]]
 *
 * The file is removed at the end.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

#include "words.h"

static int rank, ranks;
static MPI_File file;

/* By explicit offset, a block a rank; then the left neighbour's. */
static bool blocks(int round)
{
	static long block[WORDS];
	const int left = (rank + ranks - 1) % ranks;
	const MPI_Offset size = sizeof(block);

	for (int i = 0; i < WORDS; i++)
		block[i] = element(rank, round, i);
	MPI_File_write_at(file, rank * size, block, WORDS, MPI_LONG, MPI_STATUS_IGNORE);
	MPI_File_sync(file);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_sync(file);
	MPI_File_read_at(file, left * size, block, WORDS, MPI_LONG, MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	return same(block, left, round);
}

/* Collectively, by a view in which the ranks' words alternate; read back as one piece. */
static bool strides(int round)
{
	static long mine[WORDS];
	long *all = malloc(sizeof(mine) * (size_t)ranks);
	MPI_Datatype every;
	bool good = true;

	for (int i = 0; i < WORDS; i++)
		mine[i] = element(rank, round, i);
	MPI_Type_vector(WORDS, 1, ranks, MPI_LONG, &every);
	MPI_Type_commit(&every);
	MPI_File_set_view(file, rank * (MPI_Offset)sizeof(long), MPI_LONG, every, "native", MPI_INFO_NULL);
	MPI_File_write_all(file, mine, WORDS, MPI_LONG, MPI_STATUS_IGNORE);
	MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "native", MPI_INFO_NULL);
	MPI_File_sync(file);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_sync(file);
	MPI_File_read_all(file, all, WORDS * ranks, MPI_LONG, MPI_STATUS_IGNORE);
	for (int i = 0; i < WORDS * ranks; i++)
		good &= all[i] == element(i % ranks, round, i / ranks);
	MPI_Type_free(&every);
	free(all);
	MPI_Barrier(MPI_COMM_WORLD);
	return good;
}

/* Each rank appends its number where it comes; then all look who came when. */
static long turns(int round)
{
	const MPI_Offset begin = (MPI_Offset)(2 + round) << 20;
	long sum = 0, one, me = rank + 1;

	MPI_File_set_view(file, begin, MPI_LONG, MPI_LONG, "native", MPI_INFO_NULL);
	MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
	MPI_File_write_shared(file, &me, 1, MPI_LONG, MPI_STATUS_IGNORE);
	MPI_File_sync(file);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_sync(file);
	for (int i = 0; i < ranks; i++) {
		MPI_File_read_at(file, i, &one, 1, MPI_LONG, MPI_STATUS_IGNORE);
		sum = sum * 10 + one;
	}
	MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
	MPI_Barrier(MPI_COMM_WORLD);
	return sum;
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 3;
	const char *path = argc > 2 ? argv[2] : "mpi_files.data";
	bool good = true;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file)) {
		fprintf(stderr, "mpi_files: cannot open %s\n", path);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int i = 0; i < rounds; i++) {
		good &= blocks(i) && strides(i);
		printf("rank %d round %d: %ld\n", rank, i, turns(i));
	}
	MPI_File_close(&file);
	if (!good)
		printf("rank %d: wrong\n", rank);
	MPI_Finalize();
	return !good;
}
