/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outsiders.h: what ranks that are in the trace, but are not replayed, can have
 * written into the memory of those that are.
 *
 * Which requests they posted is in their traces, with addresses and lengths; the
 * bytes are not.  So where none of them went, a byte is the group's, or nobody's.
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
 * For a group of these ranks, ascending.  One pass over all streams.  0, or -errno and a sentence;
 * the caller frees it.
 */
int sr_outsiders_find(struct sr_outsiders **outsiders, struct sr_trace *t, const int32_t *ranks,
		      size_t n, struct sr_error *err);
void sr_outsiders_free(struct sr_outsiders *o);

/*
 * Where they can have written into the memory of member number `member`: *n ranges, ascending,
 * apart.  NULL: anywhere; it has a peer of which not all is in the trace.
 */
const struct sr_outsiders_range *sr_outsiders_ranges(const struct sr_outsiders *o, size_t member,
						     size_t *n);

#endif
