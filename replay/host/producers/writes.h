/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writes.h: all writes into one member's memory, when all members of the group have ended:
 * by place, then writer, then in the writer's order; and where outsiders may have written.
 */
#ifndef REPLAY_HOST_PRODUCERS_WRITES_H
#define REPLAY_HOST_PRODUCERS_WRITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/group.h"
#include "replay/analysis/plan/plan.h"
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

/*
 * Most writes are of a few bytes, and many of them are in one page: those within a line are
 * found by their line, longer ones by their page.
 */
#define SR_WRITES_LINE 64
enum sr_write_length {
	SR_WRITE_SHORT,
	SR_WRITE_LONG,
	SR_WRITE_LENGTHS,
};

struct sr_writes {
	bool loaded;
	bool has_strangers; /* a peer that is not replayed may have written anywhere */
	/* Where peers that are in the trace, but not replayed, can have written. */
	const struct sr_outsiders_range *outsiders;
	size_t outsiders_n;
	bool is_complete; /* it has all writes that were ever made to the exposed regions */
	const uint8_t *written;
	struct sr_group_write *writes;
	uint32_t *order;
	size_t count;
};

/* Places in the order: [first, end). */
struct sr_writes_range {
	size_t first, end;
};

/* 0 or -ENOMEM. */
int sr_writes_load(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m);
void sr_writes_free(struct sr_writes *m);

/* The place of writes of this length that include the address. */
uint64_t sr_writes_place(uint64_t addr, enum sr_write_length length);
/* What one member wrote at a place. */
struct sr_writes_range sr_writes_of(const struct sr_writes *m, uint64_t place, int32_t member);

/* Can a process that is not replayed have written this byte? */
bool sr_writes_may_be_outsiders(const struct sr_writes *m, uint64_t addr);

/* Is it memory that other processes share, and store into without a request? */
bool sr_is_shared(const struct sr_ended_group *e, uint32_t member, uint64_t addr);

bool sr_is_exposed(const struct sr_ended_group *e, uint32_t member, uint64_t addr);

#endif
