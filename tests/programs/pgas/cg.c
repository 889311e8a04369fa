/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cg.c: conjugate gradients on a sparse symmetric matrix without structure: in every iteration a
 * rank gets the single elements of the vector that its rows need from wherever they are.
 *
 *   cg [UNKNOWNS [NEIGHBOURS]]
 *
 * The matrix is that of a random graph with NEIGHBOURS edges for each vertex, diagonally dominant.
 * The right side is made from a known solution; the residual is worked out anew at the end.
 */
#include <math.h>
#include <stdlib.h>

#include "pgas/pgas.h"

#define MAX_ITERATIONS 200
#define SMALL          1e-10
#define CLOSE          1e-7

struct entry {
	uint32_t row;    /* of this rank */
	uint32_t source; /* where the vector's element is in `gathered` */
	double value;
};

/* An element of another rank's part (or of the own one) that our rows need. */
struct need {
	int rank;
	uint32_t index;
};

static long n, first, mine; /* unknowns; those of this rank */
static struct entry *entries;
static size_t n_entries;
static struct need *needs;
static size_t n_needs;
static double *diagonal;
static double *vector;   /* shared: what others gather from */
static double *gathered; /* private: by need */

static long first_of(int rank)
{
	return n * rank / pgas_ranks();
}

static int rank_of(long i)
{
	int rank = 0;

	while (first_of(rank + 1) <= i)
		rank++;
	return rank;
}

static void add_entry(uint32_t *source_of, long row, long column, double value)
{
	int rank = rank_of(column);

	if (source_of[column] == UINT32_MAX) {
		source_of[column] = (uint32_t)n_needs;
		needs[n_needs++] = (struct need){rank, (uint32_t)(column - first_of(rank))};
	}
	entries[n_entries++] = (struct entry){(uint32_t)(row - first), source_of[column], value};
	diagonal[row - first] += fabs(value);
}

static void *get_memory(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		pgas_fail("no memory for a matrix");
	return p;
}

/* All ranks go through all edges, and keep what belongs to their rows. */
static void make_matrix(long neighbours)
{
	uint32_t *source_of = get_memory((size_t)n * sizeof(*source_of));
	uint64_t state = 271828;

	needs = get_memory((size_t)n * sizeof(*needs));
	entries = get_memory((size_t)(2 * n * neighbours) * sizeof(*entries));
	diagonal = get_memory((size_t)mine * sizeof(*diagonal));
	for (long i = 0; i < mine; i++)
		diagonal[i] = 1;
	for (long i = 0; i < n; i++)
		source_of[i] = UINT32_MAX;
	for (long e = 0; e < n * neighbours; e++) {
		long a = e / neighbours, b = (long)(pgas_random(&state) % (uint64_t)n);
		double value = -1 - (double)(pgas_random(&state) % 1000) / 1000;

		if (a == b)
			continue;
		if (a >= first && a < first + mine)
			add_entry(source_of, a, b, value);
		if (b >= first && b < first + mine)
			add_entry(source_of, b, a, value);
	}
	free(source_of);
}

/* product = A * vector, for the own rows. */
static void multiply(double *product)
{
	pgas_barrier(); /* everybody's part of the vector is there */
	for (size_t i = 0; i < n_needs; i++)
		pgas_start_get(needs[i].rank, &gathered[i], &vector[needs[i].index],
			       sizeof(double));
	pgas_quiet();
	for (long i = 0; i < mine; i++)
		product[i] = diagonal[i] * vector[i];
	for (size_t i = 0; i < n_entries; i++)
		product[entries[i].row] += entries[i].value * gathered[entries[i].source];
	pgas_barrier(); /* nobody needs it any more */
}

static double dot(const double *a, const double *b)
{
	double sum = 0;

	for (long i = 0; i < mine; i++)
		sum += a[i] * b[i];
	return pgas_sum_double(sum);
}

static double solution(long i)
{
	return 1 + (double)(i % 7) / 4;
}

static int solve(double *x, const double *right_side)
{
	double *r = get_memory((size_t)mine * sizeof(*r)),
	       *q = get_memory((size_t)mine * sizeof(*q));
	double rho, before, alpha, start;
	int iterations = 0;

	for (long i = 0; i < mine; i++) {
		x[i] = 0;
		r[i] = vector[i] = right_side[i];
	}
	rho = start = dot(r, r);
	while (rho > SMALL * SMALL * start && iterations < MAX_ITERATIONS) {
		multiply(q);
		alpha = rho / dot(vector, q);
		for (long i = 0; i < mine; i++) {
			x[i] += alpha * vector[i];
			r[i] -= alpha * q[i];
		}
		before = rho;
		rho = dot(r, r);
		for (long i = 0; i < mine; i++)
			vector[i] = r[i] + rho / before * vector[i];
		iterations++;
	}
	free(r);
	free(q);
	return iterations;
}

static bool check(const double *x, const double *right_side, double *product)
{
	double difference = 0, residual = 0, size;

	for (long i = 0; i < mine; i++) {
		vector[i] = x[i];
		difference = fmax(difference, fabs(x[i] - solution(first + i)));
	}
	multiply(product);
	for (long i = 0; i < mine; i++)
		residual += (right_side[i] - product[i]) * (right_side[i] - product[i]);
	size = dot(right_side, right_side);
	return pgas_sum(difference > CLOSE) == 0 && sqrt(pgas_sum_double(residual) / size) < CLOSE;
}

int main(int argc, char **argv)
{
	static const char usage[] = "cg [UNKNOWNS [NEIGHBOURS]]";
	long neighbours;
	double *x, *right_side, *product;
	int iterations;

	n = pgas_argument(argc, argv, 1, 200, 1, usage);
	neighbours = pgas_argument(argc, argv, 2, 3, 1, usage);
	pgas_start((size_t)n * sizeof(double), (size_t)n * sizeof(double));
	first = first_of(pgas_rank());
	mine = first_of(pgas_rank() + 1) - first;
	/* Symmetric: as large as the largest part. */
	vector = pgas_shared((size_t)(n / pgas_ranks() + 1) * sizeof(double));
	gathered = pgas_private((size_t)n * sizeof(double));
	make_matrix(neighbours);
	x = get_memory((size_t)mine * sizeof(double));
	right_side = get_memory((size_t)mine * sizeof(double));
	product = get_memory((size_t)mine * sizeof(double));
	for (long i = 0; i < mine; i++)
		vector[i] = solution(first + i);
	multiply(right_side);
	iterations = solve(x, right_side);
	return pgas_end(pgas_result(check(x, right_side, product),
				    "cg: %ld unknowns, %d iterations", n, iterations));
}
