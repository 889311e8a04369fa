/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * found.h: pairs of accesses that the threads of a sweep found, in shards of the memory; they are told in the order in
 * which one thread would have found them.
 */
#ifndef REPLAY_ANALYSIS_RACES_FOUND_H
#define REPLAY_ANALYSIS_RACES_FOUND_H

#include <stddef.h>
#include <stdint.h>

struct sr_found_pair {
	uint64_t piece;    /* of the second access's memory; 0: by its key */
	uint32_t place;    /* of that access, among those of the batch */
	uint32_t a, b;     /* accesses */
	uint16_t doubts;
	uint8_t unordered; /* enum sr_surety */
};

/* Ascending by place and piece. */
struct sr_found_pairs {
	struct sr_found_pair *all;
	size_t n, room, told;
};

/* 0 or -ENOMEM. */
int sr_found_keep(struct sr_found_pairs *p, struct sr_found_pair pair);

/* The next one of n shards' pairs; NULL: all are told. */
const struct sr_found_pair *sr_found_next(struct sr_found_pairs *const *p, size_t n);

#endif
