/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * page_writes.h: the writes into each page of a member's memory, from the latest on: chains of numbers of the history, in which 0
 * ends a chain.
 *
 * Each is in mappings of its own, because the library's image has to stay small.  A lock of the caller's guards it.
 */
#ifndef SHIM_REPLAY_GROUP_PAGE_WRITES_H
#define SHIM_REPLAY_GROUP_PAGE_WRITES_H

#include <stdbool.h>
#include <stdint.h>

#define SR_PAGE_LAYERS 4 /* of so many writes over each byte is counted how many there were */

struct sr_page_link {
	uint64_t before;    /* the write into this page before it */
	uint16_t from, end; /* in the page */
};

struct sr_page_head {
	uint64_t page; /* 0: free */
	uint64_t last;
	uint8_t *written; /* how often each of its bytes was, SR_PAGE_LAYERS at most; NULL: that is not counted */
};

struct sr_page_writes;

/* counts: of each byte, how often it was written.  NULL: no memory. */
struct sr_page_writes *sr_page_writes_new(bool counts);
/* Takes in what has been written to the member's memory since. */
void sr_page_writes_take_in(struct sr_page_writes *x, uint32_t member);
/* So many are in it. */
uint64_t sr_page_writes_count(const struct sr_page_writes *x);
/* NULL: nothing was written there. */
const struct sr_page_head *sr_page_writes_to(struct sr_page_writes *x, uint64_t page);
/* NULL: the history no longer has the write of this number, or the number is 0. */
const struct sr_page_link *sr_page_link(const struct sr_page_writes *x, uint64_t number);

#endif
