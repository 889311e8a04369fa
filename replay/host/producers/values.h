/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * values.h: of one writer's many writes into one line, those that left a word as it was found.
 *
 * The same word may be written a million times, and be found as often.  The first searches of a line try its writes one after the other;
 * where that is long, its words are sorted by their values.
 */
#ifndef REPLAY_HOST_PRODUCERS_VALUES_H
#define REPLAY_HOST_PRODUCERS_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/host/producers/lines.h"

struct sr_writes;

#define SR_VALUES_RUNS 40 /* at most: two for each part of a word that has a certain byte */

struct sr_values;

struct sr_values *sr_values_new(void); /* NULL: no memory */
void sr_values_free(struct sr_values *v);

/* A byte at `addr`, whose word was found as `bytes` from `begin` on. */
struct sr_values_wanted {
	uint64_t addr, begin, end;
	const uint8_t *bytes;
	bool is_open;  /* open atomics, else the other writes */
	bool with_own; /* the owner's stores, too */
};

/* Entries of the writer, in their order: the lower halves.  They are likely to fit, and no others do.  There is at least one. */
struct sr_values_run {
	const uint64_t *first, *end;
};

/* writer: all its entries in the line.  How many runs there are; -1: it cannot be said. */
int sr_values_find(struct sr_values *v, const struct sr_writes *m, struct sr_lines_range writer,
		   const struct sr_values_wanted *b, struct sr_values_run *runs);

/* The first one of the run's entries that is not lower; its end: all are. */
const uint64_t *sr_values_first(const struct sr_values_run *run, size_t entry);

static inline size_t sr_values_entry(const uint64_t *at)
{
	return (uint32_t)*at;
}

#endif
