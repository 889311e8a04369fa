/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabric.h: a simulated job whose true orders are known.
 *
 * The processes have memory and are joined by queue pairs. Each queue pair keeps its order;
 * different queue pairs are served in any order. Members of the group carry clocks with the
 * code under test. In addition, each word of memory carries its true history (SReplay's
 * Algorithm 2 for each address, atomic with the access), so that the test can compare what
 * was found with what happened.
 *
 * There is one thread and a private random generator, so a seed determines a run.
 */
#ifndef TESTS_NICCLOCK_FABRIC_H
#define TESTS_NICCLOCK_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "nicclock/clock.h"

struct fabric;

/* How the recorder under test is broken, to check that the test notices. */
enum spoil {
	SPOIL_NOTHING,
	SPOIL_CLOCK_BEHIND, /* the clock is written behind the data */
	SPOIL_ONE_CELL,     /* all queue pairs of a member share a cell */
	SPOIL_NO_FENCE,     /* a device may read the cells before the data */
	SPOIL_OWN_IGNORED,  /* owners' own clocks are not looked at */
	SPOIL_LANDED_ONLY,  /* only what is proven to have landed is noted */
	SPOIL_ONE_WORD,	    /* a cell has one word, which may be found half written */
	SPOIL_COUNT,
};

struct fabric_shape {
	int members;   /* processes 0 to members - 1 */
	int outsiders; /* the rest; they own memory and write to it and others' without clocks */
	int words;     /* of memory in each */
	int lanes;     /* queue pairs from each process to each other one */
	enum spoil spoil;
	bool fair;        /* the network serves all queue pairs alike */
	bool stores_seen; /* each store is an event, as where the recorder sees the CPU's stores */
	uint64_t seed;
};

/* What came of it. */
struct fabric_counts {
	uint64_t operations;     /* of members */
	uint64_t reads;          /* at which a member saw memory */
	uint64_t missed;         /* reads with a true order that was not found */
	uint64_t produced;       /* reads of a value that another member produced */
	uint64_t producer_found; /* ... ordered behind it */
	uint64_t orders;         /* found */
	uint64_t false_orders;   /* not in the true causal past of who found it */
	uint64_t excess;         /* events by which they are too late, summed up */
	/*
	 * Orders on who produced what was seen: those are on that event.  Of the
	 * others that is taken which had landed for certain.
	 */
	uint64_t exact;
	uint64_t false_exact;
	uint64_t false_settled; /* of all */
	uint64_t trace_bytes;    /* the orders, encoded */
	uint64_t wire_bytes;     /* payload of the extra requests */
	bool cyclic;
};

struct fabric *fabric_create(const struct fabric_shape *shape);
void fabric_free(struct fabric *f);

uint32_t fabric_random(struct fabric *f, uint32_t below);

/* Requests of process `from` for word `x` of process `to`, on queue pair `lane`. */
void fabric_write(struct fabric *f, int from, int to, int lane, int x);
void fabric_read(struct fabric *f, int from, int to, int lane, int x);
void fabric_atomic(struct fabric *f, int from, int to, int lane, int x);
void fabric_send(struct fabric *f, int from, int to, int lane);

/* The process's own CPU and its own memory. */
void fabric_store(struct fabric *f, int process, int x);
void fabric_load(struct fabric *f, int process, int x);

/* Takes one completion, if there is one: then what it proves is seen. */
bool fabric_poll(struct fabric *f, int process);

/* The network does one thing; false if there is nothing to do. */
bool fabric_step(struct fabric *f);

/* Delivers and polls until all is done, and settles the counts. */
void fabric_finish(struct fabric *f, struct fabric_counts *counts);

#endif
