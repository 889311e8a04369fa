/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mpi_race.c: two ranks of three put to one place of the third one's window, and nothing orders their puts; with an argument
 * each puts to a place of its own.  The MPI library does the rest: barriers, and whatever its processes share.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLACE 5

/* Without it one's message of the barrier could come to the other one before that puts, and order the two. */
#define UNTIL_BOTH_HAVE_PUT 200000

int main(int argc, char **argv)
{
	long *base, value;
	MPI_Win window;
	int me;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Win_allocate(4096, sizeof(*base), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
	memset(base, 0, 4096);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	value = 100 + me;
	/* A first put to a rank may wait for a connection. */
	MPI_Put(&value, 1, MPI_LONG, 0, 10 + me, 1, MPI_LONG, window);
	MPI_Win_flush_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	if (me)
		MPI_Put(&value, 1, MPI_LONG, 0, argc > 1 ? 20 + me : PLACE, 1, MPI_LONG, window);
	usleep(UNTIL_BOTH_HAVE_PUT);
	MPI_Win_flush_all(window);
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me)
		printf("%ld %ld %ld\n", base[PLACE], base[11], base[12]);
	MPI_Win_free(&window);
	MPI_Finalize();
	return 0;
}
