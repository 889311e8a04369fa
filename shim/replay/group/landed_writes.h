/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * landed_writes.h: the writes of members, and the program's own stores, into each page of this process, and which of them are known
 * to have landed.
 *
 * The lock of the exposed regions guards it.
 */
#ifndef SHIM_REPLAY_GROUP_LANDED_WRITES_H
#define SHIM_REPLAY_GROUP_LANDED_WRITES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/replay/group/page_writes.h"

#define SR_LANDED_SCANNED (1u << 16) /* whoever looks into a page's chain looks at so many */

/* The chains of this process's pages, as far as they have been taken in.  NULL: no memory. */
struct sr_page_writes *sr_landed_writes(void);
/* The number of the latest write into that page; 0: there is none. */
uint64_t sr_landed_writes_into(uint64_t page);

/* An event with values to be filled in begins. */
void sr_landed_event(void);
/* It shows that this write had landed. */
void sr_landed_note(uint64_t number);
/* Had it landed before the values of this event were found? */
bool sr_landed_before(uint64_t number);

#endif
