/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writes.h: all writes into one member's memory, when all members of the group have ended; and where outsiders
 * may have written.
 */
#ifndef REPLAY_HOST_PRODUCERS_WRITES_H
#define REPLAY_HOST_PRODUCERS_WRITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/group.h"
#include "replay/analysis/plan/plan.h"
#include "replay/host/producers/lines.h"
#include "replay/host/producers/outsiders.h"

/* A group that has ended, from the view of member `self`. */
struct sr_ended_group {
	struct sr_group *group;
	int fd;
	uint32_t self;
	struct sr_trace *trace;
	struct sr_plan *plan;
	bool has_clocks; /* the plan has all orders that there were between the ranks */
	const struct sr_outsiders *outsiders; /* NULL: nothing is known of them */
};

struct sr_writes {
	bool loaded;
	bool has_strangers; /* a peer that is not replayed may have written anywhere */
	/* Where peers that are in the trace, but not replayed, can have written. */
	const struct sr_outsiders_range *outsiders;
	size_t outsiders_n;
	bool is_complete; /* it has all writes that were ever made to the exposed regions */
	const uint8_t *written[SR_GROUP_MEMBERS]; /* by holder */
	struct sr_group_write *writes;
	size_t count, room;
	size_t own; /* the first of them are this member's; the others came through memory that it shares */
	struct sr_lines lines;
};

/* Reads those that the member's memory has; more may be added before they are indexed.  0 or -ENOMEM. */
int sr_writes_load(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m);
int sr_writes_index(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m);
void sr_writes_free(struct sr_writes *m);

/*
 * Calls `see` with all writes that are kept of this member's memory, of which m then holds the bytes.  0, or
 * what it returned, or -ENOMEM.
 */
int sr_writes_each(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m,
		   int (*see)(void *argument, const struct sr_group_write *w, uint64_t number), void *argument);
/* Before they are indexed.  0 or -ENOMEM. */
int sr_writes_add(struct sr_writes *m, const struct sr_group_write *w);

/* Of a write's n bytes from `from` on, which do not go over the end of the ring; NULL: they do. */
static inline const uint8_t *sr_writes_bytes(const struct sr_writes *m, const struct sr_group_write *w,
					     uint64_t from, uint32_t n)
{
	uint64_t at = (w->at + from) % SR_GROUP_WRITTEN;

	return at + n <= SR_GROUP_WRITTEN ? m->written[w->holder] + at : NULL;
}

/* Can a process that is not replayed have written this byte? */
bool sr_writes_may_be_outsiders(const struct sr_writes *m, uint64_t addr);

/* Is any of these n bytes? */
bool sr_is_exposed(const struct sr_ended_group *e, uint32_t member, uint64_t addr, uint64_t n);

#endif
