/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench/ring: what a record costs the recorded thread, and what the daemon
 * sustains.  Producer and daemon are pinned to one CPU each; medians of RUNS.
 * When LTTng-UST is installed its tracepoints are measured in the same run
 * (bench/lttng; bench/ring.sh starts both).
 *
 *   ring SOCKET TRACE_PREFIX [runs]
 *
 * "keeping up": bursts that the ring holds, each begun when the daemon has
 * emptied it.  "sustained": as fast as ring and daemon together go.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "logd/ring/client.h"

#define RING_BYTES (2u << 20)
#define MAX_RUNS   99

struct measure {
	const char *name;
	uint32_t payload;
	uint64_t burst; /* records at a time; 0: sustained */
	uint64_t records;
};

static const struct measure measures[] = {
    {"8 B, keeping up", 8, 50000, 4000000}, {"64 B, keeping up", 64, 20000, 2000000},
    {"4 KiB, bursts", 4096, 200, 100000},   {"8 B, sustained", 8, 0, 50000000},
    {"64 B, sustained", 64, 0, 20000000},   {"4 KiB, sustained", 4096, 0, 500000},
};

static unsigned char source[4096];

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline __attribute__((always_inline)) void produce(struct sr_ring *ring, uint32_t payload,
							  uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		void *to = sr_ring_reserve(ring, SR_REC_CALL, payload);

		if (!to)
			abort();
		memcpy(to, source, payload);
		sr_ring_commit(ring, payload);
	}
}

/* Sizes are constants where records are made, as they are in a wrapper. */
static void produce_sized(struct sr_ring *ring, uint32_t payload, uint64_t n)
{
	if (payload == 8)
		produce(ring, 8, n);
	else if (payload == 64)
		produce(ring, 64, n);
	else
		produce(ring, 4096, n);
}

static double run_bursts(struct sr_client *c, struct sr_ring *ring, const struct measure *m)
{
	double total = 0;

	for (uint64_t done = 0; done < m->records; done += m->burst) {
		double begin = now_ns();

		produce_sized(ring, m->payload, m->burst);
		total += now_ns() - begin;
		if (sr_client_finish(c, 10000))
			abort();
	}
	return total / (double)m->records;
}

static double run_sustained(struct sr_client *c, struct sr_ring *ring, const struct measure *m)
{
	double begin = now_ns();

	produce_sized(ring, m->payload, m->records);
	if (sr_client_finish(c, 60000))
		abort();
	return (now_ns() - begin) / (double)m->records;
}

static void connect_to(struct sr_client *c, const char *socket, const char *dir)
{
	struct sr_hello hello = {
	    .version = SR_TRACE_VERSION, .trace_dir = dir, .schema = "{}", .schema_size = 2};
	char error[400];

	if (sr_client_connect(c, socket, &hello, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
}

static double run_once(const char *socket, const char *prefix, const struct measure *m, int run)
{
	struct sr_client c = {0};
	struct sr_ring ring;
	char dir[4000], command[4100];
	double ns;

	snprintf(dir, sizeof(dir), "%s-%d-%d.srec", prefix, (int)getpid(), run);
	connect_to(&c, socket, dir);
	if (sr_client_open_ring(&c, 0, RING_BYTES, &ring))
		abort();
	/* The ring's pages come at their first use, which is not what is measured. */
	produce_sized(&ring, 4096, RING_BYTES / 4096);
	sr_client_finish(&c, 10000);
	ns = m->burst ? run_bursts(&c, &ring, m) : run_sustained(&c, &ring, m);
	sr_client_close_ring(&c, &ring);
	sr_client_abandon(&c);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command))
		fprintf(stderr, "%s stays\n", dir);
	return ns;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *socket, const char *prefix, const struct measure *m, int runs)
{
	double ns[MAX_RUNS];

	for (int i = 0; i < runs; i++)
		ns[i] = run_once(socket, prefix, m, i);
	qsort(ns, (size_t)runs, sizeof(ns[0]), compare);
	printf("sreplay %-18s %9.2f ns/record (%.2f to %.2f)  %6.2f GB/s\n", m->name, ns[runs / 2],
	       ns[0], ns[runs - 1], (m->payload + sizeof(struct sr_record)) / ns[runs / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int runs = argc > 3 ? atoi(argv[3]) : 5;

	if (argc < 3 || runs < 1 || runs > MAX_RUNS) {
		fprintf(stderr, "usage: %s SOCKET TRACE_PREFIX [RUNS]\n", argv[0]);
		return 2;
	}
	memset(source, 0x5a, sizeof(source));
	for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++)
		measure(argv[1], argv[2], &measures[i], runs);
	return 0;
}
