/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outsiders.h: what outsiders, ranks in the trace that are not replayed, can have written into the
 * memory of those that are.
 *
 * Their traces have the addresses and lengths of their requests, but not the bytes.  A byte where
 * none of these requests went is a member's, or nobody's.
 */
#ifndef REPLAY_HOST_PRODUCERS_OUTSIDERS_H
#define REPLAY_HOST_PRODUCERS_OUTSIDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_outsiders;

/* [begin, end) of a member's memory, as the member has it. */
struct sr_outsiders_range {
	uint64_t begin, end;
};

/*
 * For a group of these ranks, ascending.  Makes one pass over all streams.  0, or -errno and a
 * sentence; the caller frees the result.
 */
int sr_outsiders_find(struct sr_outsiders **outsiders, struct sr_trace *t, const int32_t *ranks,
		      size_t n, struct sr_error *err);
void sr_outsiders_free(struct sr_outsiders *o);

/*
 * Where outsiders can have written into the memory of this member: *n disjoint ranges, ascending.
 * NULL: anywhere, because it has a peer whose requests are not all in the trace.
 */
const struct sr_outsiders_range *sr_outsiders_ranges(const struct sr_outsiders *o, size_t member,
						     size_t *n);

#endif
