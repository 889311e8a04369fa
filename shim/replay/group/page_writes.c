/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/page_writes.h"

#include "logd/base/page.h"
#include "shim/memory/room.h"
#include "shim/replay/group/own.h"

#define PAGES (1u << 18) /* a power of two; pages of a member that are written to */

/* A number's place among the links is that of its entry in the history. */
struct sr_page_writes {
	uint64_t indexed; /* so many writes are in it */
	bool counting;
	struct sr_page_head heads[PAGES];
	uint8_t *counts; /* of pages: what is left of a mapping */
	uint32_t counts_n;
	struct sr_page_link links[SR_GROUP_WRITES];
};

struct sr_page_writes *sr_page_writes_new(bool counts)
{
	struct sr_page_writes *x = sr_map_zeroed(sizeof(*x));

	if (x)
		x->counting = counts;
	return x;
}

static struct sr_page_head *head_of(struct sr_page_writes *x, uint64_t page)
{
	uint32_t at = (uint32_t)((page / PAGE * 0x9e3779b97f4a7c15ull) >> 40) % PAGES;

	for (uint32_t i = 0; i < PAGES; i++, at = (at + 1) % PAGES)
		if (!x->heads[at].page || x->heads[at].page == page)
			return &x->heads[at];
	return NULL;
}

/* Counts of a page's bytes, all 0; NULL: no memory. */
static uint8_t *new_counts(struct sr_page_writes *x)
{
	const uint32_t pages = 256;

	if (!x->counts_n) {
		x->counts = sr_map_zeroed(pages * PAGE);
		x->counts_n = x->counts ? pages : 0;
	}
	return x->counts_n ? x->counts + PAGE * --x->counts_n : NULL;
}

static void count_written(uint8_t *written, const struct sr_page_link *l)
{
	for (uint32_t i = l->from; i < l->end; i++)
		written[i] += written[i] < SR_PAGE_LAYERS;
}

static void add_link(struct sr_page_writes *x, const struct sr_group_write *w, uint64_t number)
{
	struct sr_page_head *h = head_of(x, sr_page_down(w->addr));
	struct sr_page_link *l = &x->links[number % SR_GROUP_WRITES];

	if (!h || sr_group_is_no_change(w->kind) || (x->counting && !h->page && !(h->written = new_counts(x))))
		return;
	h->page = sr_page_down(w->addr);
	*l = (struct sr_page_link){
	    .before = h->last, .from = (uint16_t)(w->addr % PAGE), .end = (uint16_t)(w->addr % PAGE + w->length)};
	if (x->counting)
		count_written(h->written, l);
	h->last = number;
}

void sr_page_writes_take_in(struct sr_page_writes *x, uint32_t member)
{
	uint64_t writes = sr_history_writes(member);
	struct sr_group_write w[32];

	while (x->indexed < writes) {
		uint32_t n = sr_history_read(member, x->indexed + 1, w, 32);

		for (uint32_t i = 0; i < n && x->indexed < writes; i++)
			add_link(x, &w[i], ++x->indexed);
	}
}

uint64_t sr_page_writes_count(const struct sr_page_writes *x)
{
	return x->indexed;
}

const struct sr_page_head *sr_page_writes_to(struct sr_page_writes *x, uint64_t page)
{
	const struct sr_page_head *h = head_of(x, page);

	return h && h->page ? h : NULL;
}

const struct sr_page_link *sr_page_link(const struct sr_page_writes *x, uint64_t number)
{
	return number && number + SR_GROUP_WRITES > x->indexed ? &x->links[number % SR_GROUP_WRITES] : NULL;
}
