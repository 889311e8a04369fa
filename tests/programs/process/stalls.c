/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stalls.c: a program that a slow recorder would hold up or starve.
 *
 *   stalls fill THREADS RECORDS [MS]   each thread records so many pieces of 4,000 random bytes,
 *                                      and pauses for MS after each
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define PIECE 4000

static int records, pause_ms;

static uint64_t mix(uint64_t sum, const unsigned char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		sum = (sum ^ data[i]) * 1099511628211ull;
	return sum;
}

static void *fill(void *argument)
{
	const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000l};
	unsigned char piece[PIECE];
	uint64_t *sum = argument;

	for (int i = 0; i < records; i++) {
		if (getrandom(piece, sizeof(piece), 0) != sizeof(piece))
			abort();
		*sum = mix(*sum, piece, sizeof(piece));
		if (pause_ms)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

static int run_fill(int argc, char **argv)
{
	int n = atoi(argv[0]);
	pthread_t threads[n];
	uint64_t sums[n];

	records = atoi(argv[1]);
	pause_ms = argc > 2 ? atoi(argv[2]) : 0;
	puts("begins");
	fflush(stdout);
	for (int i = 0; i < n; i++) {
		sums[i] = (uint64_t)i;
		pthread_create(&threads[i], NULL, fill, &sums[i]);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		printf("%d: %016llx\n", i, (unsigned long long)sums[i]);
	}
	puts("ends");
	return 0;
}

static const struct {
	const char *name;
	int arguments;
	int (*run)(int argc, char **argv);
} table[] = {
    {"fill", 2, run_fill},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(argv[1], table[i].name) && argc >= table[i].arguments + 2)
			return table[i].run(argc - 2, argv + 2);
	return 2;
}
