/* SPDX-License-Identifier: BSD-2-Clause */
/* search.h: which write brought a sampled byte: by value, and by what is known of the order. */
#ifndef REPLAY_HOST_PRODUCERS_SEARCH_H
#define REPLAY_HOST_PRODUCERS_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/page.h"
#include "replay/host/producers/values.h"
#include "replay/host/producers/view.h"
#include "replay/host/producers/writes.h"

/* One sample, as the member left it in the file. */
struct sr_sample {
	struct sr_group_sample l;
	uint64_t knows[SR_GROUP_MEMBERS];
	uint64_t stores[SR_GROUP_MEMBERS]; /* into memory that it shares: below these they were made before */
	uint8_t bytes[PAGE], before[PAGE];
};

/* The write that brought a byte; w NULL: none. */
struct sr_search_found {
	const struct sr_group_write *w;
	bool is_known, is_one_of_several;
};

/* A byte whose writer is searched for, and its word. */
struct sr_wanted {
	uint64_t addr;
	uint64_t begin, end; /* the sampled part of the word */
	bool atomics;        /* search atomics without a fetched result: they may have written anything */
};

/* By writer, the writes that can have changed a line. */
struct sr_writers {
	struct sr_lines_range of[SR_GROUP_MEMBERS];
};

/*
 * The last write that brought a word of this member's memory, and which of its bytes.  It
 * brings them once, and what its member wrote before it cannot come after it.
 */
#define SR_SPENT 65536
struct sr_spent {
	uint64_t word, tick;
	int32_t member;
	uint32_t request;
	uint8_t bytes; /* a bit each */
};

struct sr_search {
	const struct sr_ended_group *e;
	struct sr_view_part samples;
	struct sr_view_positions positions;
	struct sr_spent spent[SR_SPENT];
	struct sr_values *values[SR_GROUP_MEMBERS]; /* in their memory; NULL: nobody has searched for one yet */
};

void sr_search_begin(struct sr_search *x, const struct sr_ended_group *e);
void sr_search_end(struct sr_search *x);

/* place: where the file has it.  false: the process was killed before it was written. */
bool sr_sample_load(const struct sr_search *x, uint64_t place, struct sr_sample *k);

struct sr_search_found sr_search(struct sr_search *x, const struct sr_sample *k,
				 const struct sr_writes *m, const struct sr_writers *writers,
				 struct sr_wanted *b);

/*
 * The same for many bytes, of a READ, where that is simple: one member wrote there at all, and its last write that is known to be
 * before left all of them.  w NULL: word by word.
 */
struct sr_search_found sr_search_whole(const struct sr_search *x, const struct sr_sample *k, const struct sr_writes *m,
				       const struct sr_writers *writers, uint64_t begin, uint64_t end);

/* How many bytes from b->addr on this write and the word have in common. */
uint32_t sr_search_common(const struct sr_group_write *w, const struct sr_wanted *b);

/* These bytes came from there: they and earlier ones of that writer do not come again.  The pieces of a word in any order. */
void sr_search_spend(struct sr_search *x, uint64_t addr, uint32_t n,
		     const struct sr_group_origin *o);

#endif
