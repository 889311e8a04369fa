/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * landed_writes.h: the writes of members, and the program's own stores, into each page of this process, and which of them are known
 * to have landed.
 *
 * Of each page they are a chain of numbers of the history, from the latest on, in which 0 ends the chain.  The lock of the exposed
 * regions guards it.
 */
#ifndef SHIM_REPLAY_GROUP_LANDED_WRITES_H
#define SHIM_REPLAY_GROUP_LANDED_WRITES_H

#include <stdbool.h>
#include <stdint.h>

#define SR_LANDED_SCANNED (1u << 16) /* whoever looks into a chain looks at so many */

struct sr_landed_write {
	uint64_t before; /* the write into this page before it */
	uint64_t landed; /* the event with a value that showed that it had landed; 0: none so far */
	uint16_t from, end; /* its bytes, in the page */
};

/* False: no memory. */
bool sr_landed_writes_begin(void);
/* Takes in what has been written to this process's memory since. */
void sr_landed_writes_take_in(void);
/* So many are in it. */
uint64_t sr_landed_writes_count(void);
/* The number of the latest write into that page; 0: there is none. */
uint64_t sr_landed_writes_into(uint64_t page);
/* NULL: the history no longer has it, or the number is 0. */
const struct sr_landed_write *sr_landed_write(uint64_t number);

/* An event with values to be filled in begins. */
void sr_landed_event(void);
/* It shows that this write had landed. */
void sr_landed_note(uint64_t number);
/* Had it landed before the values of this event were found? */
bool sr_landed_before(uint64_t number);

#endif
