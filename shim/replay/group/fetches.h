/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fetches.h: where this process's own READs and atomics put their results, and when they may have.
 *
 * A message's bytes and those of a READ may land in the same memory in any order; the program, which
 * posted both, gets what landed last.  So a receive that differs from its message is no contradiction
 * where a READ may have landed behind it: one that completed after the receive was posted, or has not
 * completed yet.  In the same way one READ's bytes may be those of another one, which was posted after it: librpma
 * READs into one word only to flush, and looks at no result.  Of the latest 256 elements of requests that is known.
 *
 * The caller holds sr_group_lock.
 */
#ifndef SHIM_REPLAY_GROUP_FETCHES_H
#define SHIM_REPLAY_GROUP_FETCHES_H

#include <stdbool.h>

#include "replay/abi/group.h"

struct sr_fetch {
	uint64_t addr;
	uint32_t length;
	int32_t member; /* whose memory it is from, or -1 */
	uint64_t remote_addr;
	struct sr_group_origin origin;
	uint64_t ended; /* the end's number, from 1 on; 0: under way */
};

/* Posts an element of a READ's or atomic's list.  Returns its number, for sr_fetch_ended; consecutive ones. */
uint64_t sr_fetch_posted(const struct sr_fetch *f);
/* The elements from this number on, so many, have completed. */
void sr_fetch_ended(uint64_t number, uint32_t n);
/* The number of the latest end. */
uint64_t sr_fetch_ends(void);
/* May some of these bytes be those of an element with this number or a later one? */
bool sr_fetch_from(uint64_t number, uint64_t addr, uint32_t n);
/* The latest one over all these bytes that ended after that end, or has not; NULL: none. */
const struct sr_fetch *sr_fetch_over(uint64_t end, uint64_t addr, uint32_t n);

#endif
