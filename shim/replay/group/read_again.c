/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/read_again.h"

#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"
#include "shim/replay/group/own.h"
#include "shim/replay/group/search.h"

#define PAGES   (1u << 18) /* a power of two; pages of a member that are written to */
#define ENTRIES 16384      /* writes that a candidate may consist of */
#define UNKNOWN 1024       /* of these in one page, not known to have been before: the first ones */
#define LAYERS  4          /* so many known writes over each byte are gathered */
#define WRITERS 64
#define TRIES   4096
#define FIRST   8 /* candidates, while other members may still write what is looked for */

/*
 * The writes into each page, from the latest on: chains of numbers of the history, in which 0 ends a chain.  A number's
 * place here is that of its entry in the history.
 */
struct link {
	uint64_t before;
	uint16_t from, end; /* in the page */
};

struct head {
	uint64_t page; /* 0: free */
	uint64_t last;
};

struct index {
	uint64_t indexed; /* so many writes are in it */
	struct head heads[PAGES];
	struct link links[SR_GROUP_WRITES];
};

struct entry {
	uint64_t number, weight, at;
	uint32_t from, length; /* in what was read */
	uint32_t writer, k;    /* the k-th of this writer's, from 0 */
	bool known;
};

struct writer {
	int32_t member;
	uint32_t n, known; /* its entries; of these, known to have been before */
	uint32_t cut;      /* the candidate has so many */
};

/* Mapped, because the library's image has to stay small.  sr_group_lock guards it. */
static struct table {
	struct index *of[SR_GROUP_MEMBERS];
	struct entry entries[ENTRIES];
	struct entry sorting[ENTRIES];
	uint64_t unknown[UNKNOWN];
	uint8_t layers[SR_READ_AGAIN_MOST];
} *table;

struct search {
	const struct sr_read_again *r;
	struct index *index;
	uint8_t *bytes;
	uint64_t knows[SR_GROUP_MEMBERS];
	uint32_t n; /* entries */
	uint32_t left; /* bytes with fewer layers than are wanted */
	uint32_t writers;
	struct writer writer[WRITERS];
	uint32_t tries, most; /* candidates: so far, and at most */
};

static void *map(size_t size)
{
	void *p = sr_sys_mmap(sr_heap_place_mapping(size), size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sr_sys_is_error(p) ? NULL : p;
}

static bool begin(uint32_t member)
{
	if (!table)
		table = map(sizeof(*table));
	if (table && !table->of[member])
		table->of[member] = map(sizeof(struct index));
	return table && table->of[member];
}

/* ------------------------------------------------------------ the history by page */

static struct link *link_of(struct index *x, uint64_t number)
{
	return &x->links[number % SR_GROUP_WRITES];
}

static struct head *head_of(struct index *x, uint64_t page)
{
	uint32_t at = (uint32_t)((page / PAGE * 0x9e3779b97f4a7c15ull) >> 40) % PAGES;

	for (uint32_t i = 0; i < PAGES; i++, at = (at + 1) % PAGES)
		if (!x->heads[at].page || x->heads[at].page == page)
			return &x->heads[at];
	return NULL;
}

static void add_link(struct index *x, const struct sr_group_write *w, uint64_t number)
{
	struct head *h = head_of(x, sr_page_down(w->addr));

	if (!h || sr_group_is_no_change(w->kind))
		return;
	h->page = sr_page_down(w->addr);
	*link_of(x, number) = (struct link){
	    .before = h->last, .from = (uint16_t)(w->addr % PAGE), .end = (uint16_t)(w->addr % PAGE + w->length)};
	h->last = number;
}

static void take_in(struct index *x, uint32_t member)
{
	uint64_t writes = sr_history_writes(member);
	struct sr_group_write w[32];

	while (x->indexed < writes) {
		uint32_t n = sr_history_read(member, x->indexed + 1, w, 32);

		for (uint32_t i = 0; i < n && x->indexed < writes; i++)
			add_link(x, &w[i], ++x->indexed);
	}
}

/* -------------------------------------------------------------- what was written there */

static int writer_of(struct search *s, int32_t member)
{
	for (uint32_t i = 0; i < s->writers; i++)
		if (s->writer[i].member == member)
			return (int)i;
	if (s->writers == WRITERS)
		return -1;
	s->writer[s->writers] = (struct writer){.member = member};
	return (int)s->writers++;
}

static void count_layers(struct search *s, const struct entry *e)
{
	for (uint32_t i = e->from; i < e->from + e->length; i++)
		if (table->layers[i] < LAYERS)
			s->left -= ++table->layers[i] == LAYERS;
}

static void add(struct search *s, const struct sr_group_write *w, uint64_t number)
{
	const struct sr_read_again *r = s->r;
	uint64_t begin = w->addr > r->addr ? w->addr : r->addr;
	uint64_t end = w->addr + w->length < r->addr + r->length ? w->addr + w->length : r->addr + r->length;
	struct entry *e = &table->entries[s->n];
	int of = w->kind == SR_GROUP_ATOMIC || begin >= end || s->n == ENTRIES ? -1 : writer_of(s, w->origin.member);

	if (of < 0)
		return;
	*e = (struct entry){.number = number,
			    .weight = w->origin.weight,
			    .at = w->at + (begin - w->addr),
			    .from = (uint32_t)(begin - r->addr),
			    .length = (uint32_t)(end - begin),
			    .writer = (uint32_t)of,
			    .known = w->origin.tick <= s->knows[w->origin.member]};
	s->n++;
	if (e->known)
		count_layers(s, e);
}

/* From the last one back: those that are not known come first, of which the last that are met are the first of all. */
static void gather_page(struct search *s, uint64_t page)
{
	uint32_t member = s->r->member;
	struct head *h = head_of(s->index, page);
	uint64_t number = h && h->page ? h->last : 0, unknown = 0;
	uint64_t from = s->r->addr > page ? s->r->addr - page : 0, end = s->r->addr + s->r->length - page;
	uint32_t left = s->left, here = (uint32_t)((end < PAGE ? end : PAGE) - from);

	for (; number && number + SR_GROUP_WRITES > s->index->indexed && left - s->left < here; ) {
		const struct link *l = link_of(s->index, number);
		struct sr_group_write w;

		if (l->from < end && from < l->end && sr_history_read(member, number, &w, 1)) {
			if (w.origin.tick <= s->knows[w.origin.member])
				add(s, &w, number);
			else
				table->unknown[unknown++ % UNKNOWN] = number;
		}
		number = l->before;
	}
	for (uint64_t i = unknown > UNKNOWN ? unknown - UNKNOWN : 0; i < unknown; i++) {
		struct sr_group_write w;

		if (sr_history_read(member, table->unknown[i % UNKNOWN], &w, 1))
			add(s, &w, table->unknown[i % UNKNOWN]);
	}
}

static bool comes_before(const struct entry *a, const struct entry *b)
{
	return a->weight != b->weight ? a->weight < b->weight : a->number < b->number;
}

/* In the order of what was known of each other. */
static void sort(struct search *s)
{
	struct entry *from = table->entries, *to = table->sorting, *swap;

	for (uint32_t run = 1; run < s->n; run *= 2) {
		for (uint32_t at = 0; at < s->n; at += 2 * run) {
			uint32_t middle = at + run < s->n ? at + run : s->n, end = at + 2 * run < s->n ? at + 2 * run : s->n;
			uint32_t a = at, b = middle;

			for (uint32_t i = at; i < end; i++)
				to[i] = b == end || (a < middle && !comes_before(&from[b], &from[a])) ? from[a++] : from[b++];
		}
		swap = from;
		from = to;
		to = swap;
	}
	if (from != table->entries)
		memcpy(table->entries, from, s->n * sizeof(*from));
}

static void gather(struct search *s)
{
	s->n = s->writers = 0;
	s->left = s->r->length;
	memset(table->layers, 0, s->r->length);
	for (uint64_t page = sr_page_down(s->r->addr); page < s->r->addr + s->r->length; page += PAGE)
		gather_page(s, page);
	sort(s);
	for (uint32_t i = 0; i < s->n; i++) {
		struct entry *e = &table->entries[i];

		e->k = s->writer[e->writer].n++;
		s->writer[e->writer].known += e->known;
	}
}

/* ------------------------------------------------------------------------ candidates */

/* What no member has written is as it was when the memory was registered, and zero (contents.c). */
static bool fits(struct search *s)
{
	s->tries++;
	memset(s->bytes, 0, s->r->length);
	for (uint32_t i = 0; i < s->n; i++) {
		const struct entry *e = &table->entries[i];

		if (e->k < s->writer[e->writer].cut)
			sr_history_bytes(s->r->member, e->at, s->bytes + e->from, e->length);
	}
	return !((sr_checksum(s->bytes, s->r->length, 0) ^ s->r->checksum) & s->r->mask);
}

/* The k-th cut to be tried: as known, one more, one fewer, two more, ...  False: there is no such one. */
static bool set_cut(struct writer *w, uint32_t k)
{
	int64_t cut = (int64_t)w->known + (k % 2 ? (int64_t)(k + 1) / 2 : -(int64_t)(k / 2));

	if (cut < 0 || cut > w->n)
		return false;
	w->cut = (uint32_t)cut;
	return true;
}

static void set_known(struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		s->writer[i].cut = s->writer[i].known;
}

/* One writer has more or fewer than are known. */
static bool try_one(struct search *s)
{
	for (uint32_t k = 1; k < 2 * ENTRIES && s->tries < s->most; k++)
		for (uint32_t i = 0; i < s->writers; i++) {
			if (set_cut(&s->writer[i], k) && fits(s))
				return true;
			s->writer[i].cut = s->writer[i].known;
		}
	return false;
}

/* Several have: `away` is how many steps all of them are together. */
static bool try_away(struct search *s, uint32_t i, uint32_t away)
{
	if (i == s->writers)
		return !away && fits(s);
	for (uint32_t k = i + 1 < s->writers ? 0 : away; k <= away && s->tries < 2 * s->most; k++)
		if (set_cut(&s->writer[i], k) && try_away(s, i + 1, away - k))
			return true;
	return false;
}

static bool find(struct search *s)
{
	gather(s);
	set_known(s);
	s->tries = 0;
	if (fits(s) || try_one(s))
		return true;
	s->tries = 0;
	for (uint32_t away = 2; s->writers > 1 && away <= 32 && s->tries < s->most; away++)
		if (try_away(s, 0, away))
			return true;
	return false;
}

/* --------------------------------------------------------------------------- waiting */

static bool find_again(void *search)
{
	struct search *s = search;

	take_in(s->index, s->r->member);
	return find(s);
}

bool sr_read_again(const struct sr_thread *t, const struct sr_read_again *r, uint8_t *bytes)
{
	struct search s = {.r = r, .bytes = bytes, .most = FIRST};

	if (r->length > SR_READ_AGAIN_MOST || !begin(r->member))
		return false;
	s.index = table->of[r->member];
	sr_progress_now(t, s.knows);
	if (sr_search_await(&(struct sr_search){.member = r->member, .find = find_again, .argument = &s}))
		return true;
	/* Nothing more will come. */
	s.most = TRIES;
	if (find_again(&s))
		return true;
	sr_search_in_vain();
	return false;
}
