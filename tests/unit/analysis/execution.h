/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * execution.h: an invented run of some ranks, which is written as a trace. A matrix says, call by call (entry and return), what
 * happened before what.
 */
#ifndef TESTS_UNIT_ANALYSIS_EXECUTION_H
#define TESTS_UNIT_ANALYSIS_EXECUTION_H

#include <stdbool.h>
#include <stdint.h>

#include "nicclock/order_code.h"
#include "trace_calls.h"

#define RANKS   4
#define STEPS   160
#define CALLS   (STEPS + 16)
#define NODES   (RANKS * CALLS * 2)
#define THREADS 2

/* A bit for each pair of nodes: the first happened before the second. */
typedef uint64_t order_matrix[NODES][NODES / 64];

static inline bool is_before(const order_matrix m, int a, int b)
{
	return m[a][b / 64] >> b % 64 & 1;
}

static inline void put_before(order_matrix m, int a, int b)
{
	m[a][b / 64] |= 1ull << b % 64;
}

struct message {
	int call; /* of the sender's */
	uint64_t event;
};

struct rank {
	int calls;          /* in the order in which they took effect */
	uint64_t sn[CALLS]; /* of a call */
	uint32_t thread[CALLS];
	uint64_t event; /* of its clock */
	int call_of_event[4 * CALLS];
	struct sr_order_stream streams[THREADS];
	struct message channel[RANKS][STEPS]; /* to each: sent, not received */
	int sent[RANKS], received[RANKS];
	uint64_t requests;
};

struct run {
	struct trace_maker *m;
	uint64_t seed;
	int ranks, threads;
	bool clocks, same_numbers, places;
	struct rank rank[RANKS];
	uint64_t numbered;
	order_matrix before;
};

/* A number below n, of the run's seed. */
uint32_t chance(struct run *r, uint32_t n);

int entry_of(int rank, int call);
int return_of(int rank, int call);

uint64_t qp_address(int rank, int peer);
uint32_t qp_number(const struct run *r, int rank, int peer);

/* Begins its trace: each rank has a queue pair to each other one. */
void execution_begin(struct run *r, const char *dir);

/* An event of the rank's clock, in the call that comes next. */
uint64_t tick(struct run *r, int i, uint32_t thread, const struct sr_order *orders, uint32_t n);

/* The next call of the rank has happened. */
void called(struct run *r, int i, uint32_t thread, uint64_t sn);

/* A whole run: posts, polls and samples of clocks, at random. */
void execution_at_random(struct run *r, const char *dir);

#endif
