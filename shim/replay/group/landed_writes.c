/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/landed_writes.h"

#include "logd/base/page.h"
#include "shim/memory/room.h"
#include "shim/replay/group/group.h"
#include "shim/replay/group/own.h"

#define PAGES (1u << 18) /* a power of two; pages that members write to */

struct head {
	uint64_t page; /* 0: free */
	uint64_t last;
};

/* Mapped, because the library's image has to stay small.  A write's place is that of its entry in the history. */
static struct index {
	struct sr_landed_write writes[SR_GROUP_WRITES];
	struct head heads[PAGES];
} *x;
static uint64_t indexed; /* so many writes are in it */
static uint64_t events;  /* that had values to be filled in */

static struct sr_landed_write *write_of(uint64_t number)
{
	return &x->writes[number % SR_GROUP_WRITES];
}

static struct head *head_of(uint64_t page)
{
	uint32_t at = (uint32_t)((page / PAGE * 0x9e3779b97f4a7c15ull) >> 40) % PAGES;

	for (uint32_t i = 0; i < PAGES; i++, at = (at + 1) % PAGES)
		if (!x->heads[at].page || x->heads[at].page == page)
			return &x->heads[at];
	return NULL;
}

bool sr_landed_writes_begin(void)
{
	if (!x)
		x = sr_map_zeroed(sizeof(*x));
	return x;
}

static void add(uint64_t number, const struct sr_group_write *w)
{
	struct head *h = head_of(sr_page_down(w->addr));

	if (!h || sr_group_is_no_change(w->kind))
		return;
	h->page = sr_page_down(w->addr);
	*write_of(number) = (struct sr_landed_write){.before = h->last,
						     .from = (uint16_t)(w->addr % PAGE),
						     .end = (uint16_t)(w->addr % PAGE + w->length)};
	h->last = number;
}

void sr_landed_writes_take_in(void)
{
	uint64_t writes = sr_history_writes(sr_group_self);
	struct sr_group_write w[32];

	while (indexed < writes) {
		uint32_t n = sr_history_read(sr_group_self, indexed + 1, w, 32);

		for (uint32_t i = 0; i < n && indexed < writes; i++)
			add(++indexed, &w[i]);
	}
}

uint64_t sr_landed_writes_count(void)
{
	return indexed;
}

uint64_t sr_landed_writes_into(uint64_t page)
{
	const struct head *h = head_of(page);

	return h && h->page ? h->last : 0;
}

const struct sr_landed_write *sr_landed_write(uint64_t number)
{
	return number && number + SR_GROUP_WRITES > indexed ? write_of(number) : NULL;
}

void sr_landed_event(void)
{
	events++;
}

void sr_landed_note(uint64_t number)
{
	write_of(number)->landed = events;
}

bool sr_landed_before(uint64_t number)
{
	uint64_t landed = write_of(number)->landed;

	return landed && landed != events;
}
