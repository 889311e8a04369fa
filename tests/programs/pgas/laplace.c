/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * laplace.c: Jacobi's iteration for Laplace's equation on a square, in strips of rows whose edges
 * are put into the neighbours' memory, each followed by a flag: no barrier in the iteration.
 *
 *   laplace [SIZE [ITERATIONS [LATE]]]
 *
 * LATE: this rank comes late in each of its first iterations, so that its neighbours wait.
 *
 * Each rank does the whole iteration alone at the end; its strip must be the same to the last bit.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgas/pgas.h"

/*
 * What a neighbour puts here: its edge row and then the number of the iteration it belongs to. Two
 * by turns: a neighbour that is one iteration ahead writes into the other one, and it cannot be two
 * ahead, since it needs our edge.
 */
struct halo {
	uint64_t *iteration;
	double *row;
};

enum { ABOVE, BELOW };

static struct halo halos[2][2];
#define LATE_ITERATIONS 5
#define LATE_US		20000

static long late; /* the rank that is, or another number */
static long size; /* of the inside; the boundary is around it */
static double *edge_out;

/* On the boundary; hot in the middle of the top, and a slope on the left. */
static double boundary(long row, long column)
{
	if (row == 0)
		return column > size / 4 && column < size - size / 4 ? 100 : 0;
	return column == 0 ? (double)row / (double)size * 50 : 0;
}

static double *make_grid(long first, long rows)
{
	long width = size + 2;
	double *grid = calloc((size_t)((rows + 2) * width), sizeof(*grid));

	if (!grid)
		pgas_fail("no memory for a grid");
	for (long r = 0; r < rows + 2; r++)
		for (long c = 0; c < width; c++)
			grid[r * width + c] = boundary(first + r, c);
	return grid;
}

/* Rows 1 to `rows` of `to` from their neighbours in `from`. */
static void relax(double *to, const double *from, long rows)
{
	long width = size + 2;

	for (long r = 1; r <= rows; r++)
		for (long c = 1; c <= size; c++)
			to[r * width + c] =
			    0.25 * (from[(r - 1) * width + c] + from[(r + 1) * width + c] +
				    from[r * width + c - 1] + from[r * width + c + 1]);
}

static void swap(double **a, double **b)
{
	double *t = *a;

	*a = *b;
	*b = t;
}

static void make_halos(void)
{
	for (int turn = 0; turn < 2; turn++)
		for (int side = 0; side < 2; side++) {
			halos[turn][side].iteration = pgas_shared(sizeof(uint64_t));
			halos[turn][side].row = pgas_shared((size_t)(size + 2) * sizeof(double));
		}
	edge_out = pgas_private(2 * (size_t)(size + 2) * sizeof(double));
}

/* Our edge at `side` becomes the neighbour's halo on its other side. */
static void send_edge(int neighbour, int side, const double *row, uint64_t iteration)
{
	struct halo *h = &halos[iteration % 2][1 - side];
	size_t width = (size_t)(size + 2);
	double *out = edge_out + (size_t)side * width;

	memcpy(out, row, width * sizeof(*row));
	pgas_start_put(neighbour, h->row, out, width * sizeof(*row));
	pgas_put(neighbour, h->iteration, &iteration, sizeof(iteration));
}

static void receive_edge(int side, double *row, uint64_t iteration)
{
	struct halo *h = &halos[iteration % 2][side];

	pgas_wait_for(h->iteration, iteration);
	memcpy(row, h->row, (size_t)(size + 2) * sizeof(*row));
}

static double *iterate(long first, long rows, long iterations)
{
	double *grid = make_grid(first, rows), *next = make_grid(first, rows);
	long width = size + 2;
	bool above = pgas_rank() > 0, below = pgas_rank() < pgas_ranks() - 1;

	for (long i = 1; i <= iterations; i++) {
		relax(next, grid, rows);
		swap(&grid, &next);
		if (late == pgas_rank() && i <= LATE_ITERATIONS)
			usleep(LATE_US);
		if (above)
			send_edge(pgas_rank() - 1, ABOVE, grid + width, (uint64_t)i);
		if (below)
			send_edge(pgas_rank() + 1, BELOW, grid + rows * width, (uint64_t)i);
		if (above)
			receive_edge(ABOVE, grid, (uint64_t)i);
		if (below)
			receive_edge(BELOW, grid + (rows + 1) * width, (uint64_t)i);
	}
	free(next);
	return grid;
}

static double *iterate_alone(long iterations)
{
	double *grid = make_grid(0, size), *next = make_grid(0, size);

	for (long i = 0; i < iterations; i++) {
		relax(next, grid, size);
		swap(&grid, &next);
	}
	free(next);
	return grid;
}

int main(int argc, char **argv)
{
	static const char usage[] = "laplace [SIZE [ITERATIONS [LATE]]]";
	long iterations, first, rows;
	double *strip, *whole, middle;
	bool right;

	size = pgas_argument(argc, argv, 1, 64, 1, usage);
	iterations = pgas_argument(argc, argv, 2, 100, 1, usage);
	late = pgas_argument(argc, argv, 3, PGAS_MAX_RANKS, 0, usage);
	pgas_start(4 * ((size_t)(size + 2) * sizeof(double) + 128),
		   2 * (size_t)(size + 2) * sizeof(double));
	if (size < pgas_ranks())
		pgas_fail("%ld rows are too few for %d ranks", size, pgas_ranks());
	make_halos();
	first = size * pgas_rank() / pgas_ranks();
	rows = size * (pgas_rank() + 1) / pgas_ranks() - first;
	pgas_barrier();
	strip = iterate(first, rows, iterations);
	pgas_barrier();
	whole = iterate_alone(iterations);
	right = !memcmp(strip + size + 2, whole + (first + 1) * (size + 2),
			(size_t)(rows * (size + 2)) * sizeof(*strip));
	middle = whole[(size / 2 + 1) * (size + 2) + size / 2 + 1];
	free(strip);
	free(whole);
	return pgas_end(pgas_result(pgas_sum(!right) == 0,
				    "laplace: %.6f in the middle after %ld iterations", middle,
				    iterations));
}
