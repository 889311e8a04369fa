/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/landed_writes.h"

#include "shim/memory/room.h"
#include "shim/replay/group/own.h"

/* Mapped, because the library's image has to stay small.  A write's place is that of its entry in the history. */
static struct landed {
	uint64_t number; /* of the write that had landed */
	uint64_t event;	 /* the latest one with a value that showed it */
} *landed;
static struct sr_page_writes *writes;
static uint64_t events; /* that had values to be filled in */

struct sr_page_writes *sr_landed_writes(void)
{
	if (!writes)
		writes = sr_page_writes_new(false);
	if (!landed)
		landed = sr_map_zeroed(SR_GROUP_WRITES * sizeof(*landed));
	return landed ? writes : NULL;
}

uint64_t sr_landed_writes_into(uint64_t page)
{
	const struct sr_page_head *h = sr_page_writes_to(writes, page);

	return h ? h->last : 0;
}

void sr_landed_event(void)
{
	events++;
}

void sr_landed_note(uint64_t number)
{
	landed[number % SR_GROUP_WRITES] = (struct landed){number, events};
}

bool sr_landed_before(uint64_t number)
{
	const struct landed *l = &landed[number % SR_GROUP_WRITES];

	return l->number == number && l->event != events;
}
