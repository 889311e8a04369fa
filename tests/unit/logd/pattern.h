/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pattern.h: a sequence of records that follows from a seed, so that a reader knows the
 * n-th record.
 */
#ifndef TESTS_LOGD_PATTERN_H
#define TESTS_LOGD_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "logd/ring/ring.h"

static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

struct pattern_record {
	uint16_t kind;
	uint64_t sns; /* that it counts */
	size_t size;
};

/* The n-th record of a sequence: mostly small, sometimes larger than a small ring. */
struct pattern_record pattern_at(uint64_t seed, uint64_t n);

/* Fills in its payload; a REPEAT's and a MARK's begin with the fields that they need. */
void pattern_fill(uint64_t seed, uint64_t n, const struct pattern_record *r, void *payload);

/* Puts the n-th record into the ring. False if it was dropped. */
bool pattern_write(struct sr_ring *ring, uint64_t seed, uint64_t n);

/* Is the entry the n-th record, with SN sn? Reports a difference on stderr. */
bool pattern_matches(const struct sr_entry *e, uint64_t seed, uint64_t n, uint64_t sn);

#endif
