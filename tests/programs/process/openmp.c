/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * openmp.c: OpenMP as programs use it: sums, loops that are handed out as threads ask for them, barriers, locks, tasks.
 *
 *     openmp CASE [ROUNDS]
 *
 *     reduction  sums of doubles over threads, which depend on their order in the last digits
 *     dynamic    a loop of which each thread takes the next piece; who took how many differs from run to run
 *     barriers   short pieces of work, and a barrier behind each
 *     last       the same, where the barrier is the last thing that is done
 *     critical   a critical section, which notes who came after whom
 *     tasks      a tree of tasks
 */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 256

static uint64_t rounds = 20;

static double work(uint64_t n)
{
	double x = (double)(n % 97) + 0.5;

	for (int i = 0; i < 20000; i++)
		x = x * 0.999 + 1.0 / (x + (double)i);
	return x;
}

static void reduction(void)
{
	double sum = 0;

	for (uint64_t r = 0; r < rounds; r++) {
#pragma omp parallel for reduction(+ : sum)
		for (uint64_t i = 0; i < 200; i++)
			sum += work(i + r);
	}
	printf("%.17g\n", sum);
}

static void dynamic(void)
{
	uint64_t taken[THREADS_MAX] = {0}, mixed[THREADS_MAX] = {0};

	for (uint64_t r = 0; r < rounds; r++) {
#pragma omp parallel for schedule(dynamic, 1)
		for (uint64_t i = 0; i < 200; i++) {
			int me = omp_get_thread_num();

			taken[me] += work(i + r) > 0;
			mixed[me] = mixed[me] * 31 + i;
		}
	}
	for (int i = 0; i < omp_get_max_threads(); i++)
		printf("thread %d: %llu %llx\n", i, (unsigned long long)taken[i], (unsigned long long)mixed[i]);
}

static void barriers(void)
{
	double sums[THREADS_MAX] = {0};

#pragma omp parallel
	for (uint64_t r = 0; r < 10 * rounds; r++) {
		int me = omp_get_thread_num();

		for (uint64_t i = 0; i < 10; i++)
			sums[me] += work(i + r + (uint64_t)me);
#pragma omp barrier
	}
	for (int i = 0; i < omp_get_max_threads(); i++)
		printf("%.17g\n", sums[i]);
}

static double last_sums[THREADS_MAX];

/* The region ends with a jump to the runtime, which returns to whoever called the region. */
static void last(void)
{
	for (uint64_t r = 0; r < rounds; r++) {
#pragma omp parallel
		{
			int me = omp_get_thread_num();

			last_sums[me] += work(r + (uint64_t)me);
#pragma omp barrier
		}
	}
	printf("%.17g\n", last_sums[0]);
}

static void critical(void)
{
	uint64_t order = 0;
	double sum = 0;

#pragma omp parallel for schedule(static)
	for (uint64_t i = 0; i < 200 * rounds; i++) {
		double x = work(i);

#pragma omp critical
		{
			order = order * 31 + (uint64_t)omp_get_thread_num();
			sum += x;
		}
	}
	printf("%llx %.17g\n", (unsigned long long)order, sum);
}

static double tree(int depth)
{
	double a = 0, b = 0;

	if (!depth)
		return work(3);
#pragma omp task shared(a)
	a = tree(depth - 1);
#pragma omp task shared(b)
	b = tree(depth - 1);
#pragma omp taskwait
	return a + b;
}

static void tasks(void)
{
	double sum = 0;

	for (uint64_t r = 0; r < rounds; r++) {
#pragma omp parallel
#pragma omp single
		sum += tree(8);
	}
	printf("%.17g\n", sum);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"reduction", reduction}, {"dynamic", dynamic}, {"barriers", barriers}, {"last", last}, {"critical", critical}, {"tasks", tasks}};

int main(int argc, char **argv)
{
	if (argc > 2)
		rounds = strtoull(argv[2], NULL, 10);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		cases[i].run();
		return 0;
	}
	return 2;
}
