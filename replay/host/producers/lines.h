/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lines.h: an index of the writes into one member's memory by where they went: by line, then writer, then in the
 * writer's order.
 *
 * Most pages are never asked for, so a page is indexed when it first is.  Where writes are long, its lines are
 * longer too, so that a write stands in few of them.
 */
#ifndef REPLAY_HOST_PRODUCERS_LINES_H
#define REPLAY_HOST_PRODUCERS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/group.h"

/* No line is shorter: a power of two. */
#define SR_LINE_LEAST 64

/*
 * Often hardly one of many entries is of the kind that is searched for, so there are lists of some kinds.  Each entry counts what the
 * first ones have in front of it; in the others its place is searched for.
 */
enum sr_lines_list_name {
	SR_LINES_WITH_BYTES, /* they can have left a value */
	SR_LINES_CHANGES,    /* of these, all but the member's own stores: what can have changed a value unseen */
	SR_LINES_COUNTED,
	SR_LINES_FETCHED = SR_LINES_COUNTED,
	SR_LINES_LOCKS,
	SR_LINES_LISTS,
};

/* A write, in one of the lines that it changed; number: its place among all of this memory. */
struct sr_line_entry {
	uint32_t number;
	int32_t member;			 /* whose write it is: here, as each look at a write itself is a cache miss */
	uint32_t before[SR_LINES_COUNTED]; /* so many entries of these lists are in front of it */
};

/* Entries, in the index's order. */
struct sr_lines_list {
	uint32_t *entries;
	size_t n, room;
};

/* A datagram's header, in one of the lines in which it is. */
struct sr_lines_header {
	uint32_t line;	 /* its first entry */
	uint32_t number; /* of the write */
};

/* By line, then by number, whoever sent them. */
struct sr_lines_headers {
	struct sr_lines_header *all;
	size_t n, room;
};

struct sr_lines_page {
	uint64_t number;  /* of the page, plus 1; 0: this place of the table is free */
	uint32_t n, first; /* its writes, in by_page */
	uint8_t shift;	  /* of its addresses, to the numbers of its lines */
	uint32_t *begins; /* where the entries of each of its lines begin, and the last one's end; NULL: it is not indexed yet */
};

struct sr_lines {
	const struct sr_group_write *writes;
	struct sr_lines_page *pages; /* a table of hashed pages */
	size_t pages_n;		     /* a power of two */
	uint32_t *by_page;	     /* numbers of writes */
	struct sr_line_entry *entries; /* of the pages that are indexed; in each of them in the index's order */
	size_t entries_n, room;
	struct sr_lines_list list[SR_LINES_LISTS];
	struct sr_lines_headers headers;
};

/* Entries: [first, end). */
struct sr_lines_range {
	size_t first, end;
};

/* The writes stay the caller's, and where they are.  0 or -ENOMEM. */
int sr_lines_begin(struct sr_lines *x, const struct sr_group_write *writes, size_t n);
void sr_lines_free(struct sr_lines *x);

/* What each member wrote in the line of this address.  0 or -ENOMEM. */
int sr_lines_at(struct sr_lines *x, uint64_t addr, uint32_t members, struct sr_lines_range *of);

/* The addresses of the line of this one, whose page has entries. */
void sr_lines_extent(const struct sr_lines *x, uint64_t addr, uint64_t *begin, uint64_t *end);

static inline uint32_t sr_lines_number(const struct sr_lines *x, size_t entry)
{
	return x->entries[entry].number;
}

static inline const struct sr_group_write *sr_lines_write(const struct sr_lines *x, size_t entry)
{
	return &x->writes[sr_lines_number(x, entry)];
}

/* How many entries of the list are in front of this one: the place of the next one in the list. */
size_t sr_lines_before(const struct sr_lines *x, enum sr_lines_list_name list, size_t entry);

/*
 * The header at this byte: the last one of the writes before `number`, else the first one
 * behind.  NULL: there is none.
 */
const struct sr_group_write *sr_lines_header_at(const struct sr_lines *x, uint64_t addr, uint64_t number);

#endif
