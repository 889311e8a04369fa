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

/* A write, in one of the lines that it changed; number: its place among all of this memory. */
struct sr_line_entry {
	uint32_t number;
	uint32_t before; /* so many entries in front of it have bytes */
	int32_t member;	 /* whose write it is: here, as each look at a write itself is a cache miss */
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
	uint32_t *with_bytes; /* entries of writes that have bytes: often hardly one of the many that say what may be there */
	size_t with_bytes_n;
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

static inline uint32_t sr_lines_number(const struct sr_lines *x, size_t entry)
{
	return x->entries[entry].number;
}

static inline const struct sr_group_write *sr_lines_write(const struct sr_lines *x, size_t entry)
{
	return &x->writes[sr_lines_number(x, entry)];
}

/* The number of entries in front of this one that have bytes: of the next one of these in `with_bytes`. */
static inline size_t sr_lines_with_bytes(const struct sr_lines *x, size_t entry)
{
	return entry < x->entries_n ? x->entries[entry].before : x->with_bytes_n;
}

#endif
