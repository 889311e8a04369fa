/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owned_ranges.h: a set of bytes in the memories of several processes.
 *
 * Add all of them, join them, then ask.  One thread.
 */
#ifndef REPLAY_ANALYSIS_RACES_OWNED_RANGES_H
#define REPLAY_ANALYSIS_RACES_OWNED_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sr_owned_ranges {
	struct sr_owned_range {
		uint64_t begin, end;
		uint64_t owner; /* the process whose memory it is */
	} *list;
	size_t n, room;
};

/* False: no memory. */
bool sr_owned_ranges_add(struct sr_owned_ranges *r, uint64_t owner, uint64_t begin, uint64_t end);
/* Sorts them; those of one owner that touch become one. */
void sr_owned_ranges_join(struct sr_owned_ranges *r);
/* Is one of these bytes in the set? */
bool sr_owned_ranges_meet(const struct sr_owned_ranges *r, uint64_t owner, uint64_t begin, uint64_t end);
void sr_owned_ranges_free(struct sr_owned_ranges *r);

#endif
