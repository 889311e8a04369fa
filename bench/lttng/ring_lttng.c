/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring_lttng: what bench/ring measures, with LTTng-UST's tracepoints: the same
 * payloads, the same bursts.  bench/ring.sh sets the session up.
 *
 *   ring_lttng PAYLOAD BURST RECORDS PAUSE_MS RUNS
 *
 * There is no "finish" to wait for: between two bursts it sleeps, so that the
 * consumer daemon empties the buffers.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ring_lttng_tp.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAX_RUNS 99

static uint8_t source[65536];

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void produce(uint32_t payload, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (payload == 8)
			lttng_ust_tracepoint(ring_bench, word, i);
		else
			lttng_ust_tracepoint(ring_bench, bytes, source, payload);
	}
}

static double run(uint32_t payload, uint64_t burst, uint64_t records, useconds_t pause)
{
	double total = 0;

	for (uint64_t done = 0; done < records; done += burst) {
		double begin = now_ns();

		produce(payload, burst);
		total += now_ns() - begin;
		usleep(pause);
	}
	return total / (double)records;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	double ns[MAX_RUNS];
	int runs;

	if (argc != 6 || (runs = atoi(argv[5])) < 1 || runs > MAX_RUNS)
		return 2;
	produce((uint32_t)atoi(argv[1]), 1000);
	usleep(300000);
	for (int i = 0; i < runs; i++)
		ns[i] = run((uint32_t)atoi(argv[1]), strtoull(argv[2], NULL, 0),
			    strtoull(argv[3], NULL, 0), (useconds_t)atoi(argv[4]) * 1000);
	qsort(ns, (size_t)runs, sizeof(ns[0]), compare);
	printf("%.2f %.2f %.2f\n", ns[runs / 2], ns[0], ns[runs - 1]);
	return 0;
}
