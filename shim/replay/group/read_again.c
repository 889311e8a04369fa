/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/read_again.h"

#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/page.h"
#include "shim/memory/room.h"
#include "shim/replay/group/own.h"
#include "shim/replay/group/page_writes.h"
#include "shim/replay/group/search.h"

#define ENTRIES 16384      /* writes that a candidate may consist of */
#define UNKNOWN 1024       /* of these in one page, not known to have been before: the first ones */
#define UNSEEN  1024       /* known to have been before, and not found yet: so many count for no layer */
#define WRITERS 64
#define TRIES   4096
#define MIXED   65536 /* ... of those where each writer has what is known or what was seen, and one any other cut */
#define PAIRS   262144 /* ... of those where two writers have any cut, and the others what was seen */
#define FIRST   8 /* candidates, while other members may still write what is looked for */

struct entry {
	uint64_t number, weight, at;
	uint32_t from, length; /* in what was read */
	uint32_t writer, k;    /* the k-th of this writer's, from 0 */
	bool known;
};

/* A member, or one of its queue pairs. */
struct writer {
	int32_t member;
	uint32_t queue; /* of its latest */
	uint32_t n, known; /* its entries; of these, known to have been before */
	uint32_t seen;     /* ... and found by an earlier READ */
	uint32_t least, base, most; /* of these are tried, those next to `base` first */
	uint32_t cut;      /* the candidate has so many */
};

/* Mapped, because the library's image has to stay small.  sr_group_lock guards it. */
static struct table {
	struct sr_page_writes *of[SR_GROUP_MEMBERS];
	struct entry entries[ENTRIES];
	struct entry sorting[ENTRIES];
	uint64_t unknown[UNKNOWN];
	uint8_t layers[SR_READ_AGAIN_MOST];
	/* Of each member's memory, by writer: the last of its writes that a READ of this process has found. */
	uint64_t seen[SR_GROUP_MEMBERS][SR_GROUP_MEMBERS];
} *table;

struct search {
	const struct sr_read_again *r;
	struct sr_page_writes *index;
	uint8_t *bytes;
	uint64_t knows[SR_GROUP_MEMBERS];
	uint32_t n; /* entries */
	uint32_t left; /* layers of all bytes of the page that are still wanted */
	uint32_t unseen;
	uint32_t touched; /* bytes that entries have */
	uint32_t writers;
	struct writer writer[WRITERS];
	bool by_queue; /* each queue pair is a writer */
	bool queues;   /* else: a member has several */
	const struct entry *top; /* the candidate has it over all others; NULL: in its place */
	uint32_t tries, most; /* candidates: so far, and at most */
};

static bool begin(uint32_t member)
{
	if (!table)
		table = sr_map_zeroed(sizeof(*table));
	if (table && !table->of[member])
		table->of[member] = sr_page_writes_new(true);
	return table && table->of[member];
}

/* -------------------------------------------------------------- what was written there */

static int writer_of(struct search *s, const struct sr_group_origin *o)
{
	for (uint32_t i = 0; i < s->writers; i++) {
		struct writer *w = &s->writer[i];

		if (w->member != o->member || (s->by_queue && w->queue != o->queue))
			continue;
		s->queues = s->queues || w->queue != o->queue;
		return (int)i;
	}
	if (s->writers == WRITERS)
		return -1;
	s->writer[s->writers] = (struct writer){.member = o->member, .queue = o->queue};
	return (int)s->writers++;
}

/* A READ of this process has found it, or a later one of its writer. */
static bool is_seen(const struct search *s, const struct entry *e)
{
	return e->number <= table->seen[s->r->member][s->writer[e->writer].member];
}

static void count_layers(struct search *s, const struct entry *e)
{
	for (uint32_t i = e->from; i < e->from + e->length; i++)
		if (table->layers[i]) {
			table->layers[i]--;
			s->left--;
		}
}

static void add(struct search *s, const struct sr_group_write *w, uint64_t number)
{
	const struct sr_read_again *r = s->r;
	uint64_t begin = w->addr > r->addr ? w->addr : r->addr;
	uint64_t end = w->addr + w->length < r->addr + r->length ? w->addr + w->length : r->addr + r->length;
	struct entry *e = &table->entries[s->n];
	int of = w->kind == SR_GROUP_ATOMIC || begin >= end || s->n == ENTRIES ? -1 : writer_of(s, &w->origin);

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
	if (e->known && (is_seen(s, e) || s->unseen++ >= UNSEEN))
		count_layers(s, e);
}

/* Of each byte as many as were ever written there, and SR_PAGE_LAYERS at most. */
static void want_layers(struct search *s, uint64_t page, const uint8_t *written)
{
	uint64_t from = page > s->r->addr ? page : s->r->addr, end = s->r->addr + s->r->length;

	s->left = 0;
	for (uint64_t at = from; written && at < end && at < page + PAGE; at++)
		s->left += table->layers[at - s->r->addr] = written[at - page];
}

/* From the last one back: those that are not known come first, of which the last that are met are the first of all. */
static void gather_page(struct search *s, uint64_t page)
{
	uint32_t member = s->r->member;
	const struct sr_page_head *h = sr_page_writes_to(s->index, page);
	uint64_t number = h ? h->last : 0, unknown = 0;
	uint64_t end = s->r->addr + s->r->length - page;

	want_layers(s, page, h ? h->written : NULL);
	for (const struct sr_page_link *l; s->left && (l = sr_page_link(s->index, number)); number = l->before) {
		struct sr_group_write w;

		if (l->from >= end || s->r->addr >= page + l->end || !sr_history_read(member, number, &w, 1))
			continue;
		if (w.origin.tick <= s->knows[w.origin.member])
			add(s, &w, number);
		else
			table->unknown[unknown++ % UNKNOWN] = number;
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
	s->n = s->writers = s->unseen = 0;
	memset(table->layers, 0, s->r->length);
	for (uint64_t page = sr_page_down(s->r->addr); page < s->r->addr + s->r->length; page += PAGE)
		gather_page(s, page);
	sort(s);
	memset(table->layers, 0, s->r->length);
	for (uint32_t i = 0; i < s->n; i++)
		memset(table->layers + table->entries[i].from, 1, table->entries[i].length);
	s->touched = 0;
	for (uint32_t i = 0; i < s->r->length; i++)
		s->touched += table->layers[i];
	for (uint32_t i = 0; i < s->n; i++) {
		struct entry *e = &table->entries[i];

		e->k = s->writer[e->writer].n++;
		s->writer[e->writer].known += e->known;
		s->writer[e->writer].seen += is_seen(s, e);
	}
}

/*
 * The writes of one queue pair land in their order: what a READ has found, a later one finds, too, and of its own process just
 * what it had posted before.
 */
static void limit_in_order(struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++) {
		struct writer *w = &s->writer[i];
		bool is_own = (uint32_t)w->member == sr_group_self && s->r->member != sr_group_self;

		w->least = is_own || w->seen > w->known ? w->known : w->seen;
		w->most = is_own ? w->known : w->n;
	}
}

/* What is known of the order of earlier READs is of members, and not of their queue pairs. */
static void limit_by_entries(struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++) {
		s->writer[i].least = 0;
		s->writer[i].most = s->writer[i].n;
	}
}

static void note_seen(const struct search *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct entry *e = &table->entries[i];
		uint64_t *seen = &table->seen[s->r->member][s->writer[e->writer].member];

		if (e->k < s->writer[e->writer].cut && e->number > *seen)
			*seen = e->number;
	}
}

/* ------------------------------------------------------------------------ candidates */

/* Puts what the entry has of bytes that no later one has; how many. */
static uint32_t put_below(struct search *s, const struct entry *e)
{
	uint8_t *covered = table->layers + e->from;
	uint32_t put = 0;

	for (uint32_t i = 0, n; i < e->length; i += n) {
		for (n = 1; i + n < e->length && covered[i + n] == covered[i];)
			n++;
		if (covered[i])
			continue;
		sr_history_bytes(s->r->member, e->at + i, s->bytes + e->from + i, n);
		memset(covered + i, 1, n);
		put += n;
	}
	return put;
}

/* What no member has written is as it was when the memory was registered, and zero (contents.c). */
static bool fits(struct search *s)
{
	uint32_t left = s->touched;

	s->tries++;
	memset(s->bytes, 0, s->r->length);
	memset(table->layers, 0, s->r->length);
	if (s->top)
		left -= put_below(s, s->top);
	for (uint32_t i = s->n; i-- && left;) {
		const struct entry *e = &table->entries[i];

		if (e->k < s->writer[e->writer].cut)
			left -= put_below(s, e);
	}
	return !((sr_checksum(s->bytes, s->r->length, 0) ^ s->r->checksum) & s->r->mask);
}

/* How many cuts may be tried beside the known one. */
static uint32_t others(const struct writer *w)
{
	return w->most - w->least;
}

/* The k-th cut to be tried: the base, one more, one fewer, two more, ... and then those that are left on one side. */
static bool set_cut(struct writer *w, uint32_t k)
{
	uint32_t more = w->most - w->base, fewer = w->base - w->least, both = more < fewer ? more : fewer;

	if (k > others(w))
		return false;
	if (k <= 2 * both)
		w->cut = k % 2 ? w->base + (k + 1) / 2 : w->base - k / 2;
	else
		w->cut = more > fewer ? w->base + (k - both) : w->base - (k - both);
	return true;
}

static void set_base(struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		s->writer[i].cut = s->writer[i].base;
}

/* One writer has more or fewer than its base. */
static bool try_one(struct search *s, uint32_t all)
{
	set_base(s);
	for (uint32_t k = 1; k <= all && s->tries < s->most; k++)
		for (uint32_t i = 0; i < s->writers; i++) {
			if (set_cut(&s->writer[i], k) && fits(s))
				return true;
			s->writer[i].cut = s->writer[i].base;
		}
	return false;
}

static uint32_t others_from(const struct search *s, uint32_t i)
{
	uint32_t n = 0;

	for (; i < s->writers; i++)
		n += others(&s->writer[i]);
	return n;
}

/* The writers from this one on have more or fewer than their bases: `away` is how many steps all of them are together. */
static bool try_away(struct search *s, uint32_t i, uint32_t away)
{
	uint32_t left;

	if (i == s->writers)
		return fits(s);
	left = others_from(s, i + 1);
	for (uint32_t k = away > left ? away - left : 0; k <= away && s->tries < s->most && set_cut(&s->writer[i], k); k++)
		if (try_away(s, i + 1, away - k))
			return true;
	return false;
}

static bool try_all(struct search *s)
{
	uint32_t all = others_from(s, 0);

	s->tries = 0;
	set_base(s);
	if (fits(s) || try_one(s, all))
		return true;
	s->tries = 0;
	for (uint32_t away = 2; away <= all && s->tries < s->most; away++)
		if (try_away(s, 0, away))
			return true;
	return false;
}

/* All that is known to have been before. */
static void begin_at_known(struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		s->writer[i].base = s->writer[i].known;
}

/* Limited to what is tried. */
static uint32_t seen_of(const struct writer *w)
{
	return w->seen < w->least ? w->least : w->seen > w->most ? w->most : w->seen;
}

/*
 * Nothing but what an earlier READ has found.  What is known to have been before the READ's completion may have come behind
 * the READ: where its process or the device was interrupted in between, that is all that the others did meanwhile.
 */
static void begin_at_seen(struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		s->writer[i].base = seen_of(&s->writer[i]);
}

static bool try_both(struct search *s)
{
	begin_at_known(s);
	if (try_all(s))
		return true;
	begin_at_seen(s);
	return try_all(s);
}

/* Some writers may have come behind the READ. Each set bit takes one of them as such. False: there are fewer. */
static bool begin_at_mixed(struct search *s, uint32_t behind)
{
	for (uint32_t i = 0; i < s->writers; i++) {
		struct writer *w = &s->writer[i];

		w->base = w->known;
		if (seen_of(w) == w->known)
			continue;
		if (behind & 1)
			w->base = seen_of(w);
		behind >>= 1;
	}
	return !behind;
}

/*
 * Of processes that take turns on few processors, some had their turn before the READ, and some behind it; of one the READ
 * came in the middle.
 */
static bool try_mixed(struct search *s)
{
	uint32_t all = others_from(s, 0), most = s->most;
	bool found = false;

	s->tries = 0;
	s->most = MIXED;
	for (int one = 0; one < 2 && !found; one++)
		for (uint32_t behind = 1; begin_at_mixed(s, behind) && s->tries < s->most && !found; behind++) {
			set_base(s);
			found = one ? try_one(s, all) : fits(s);
		}
	s->most = most;
	return found;
}

/* All cuts of two writers. */
static bool try_pair(struct search *s, struct writer *a, struct writer *b)
{
	for (uint32_t i = 1; set_cut(a, i); i++)
		for (uint32_t k = 1; s->tries < s->most && set_cut(b, k); k++)
			if (fits(s))
				return true;
	a->cut = a->base;
	b->cut = b->base;
	return false;
}

/* Of the words of a place hardly more than three change at a time, the process's own among them: shim/verbs/scattered.h. */
static bool try_pairs(struct search *s)
{
	uint32_t most = s->most;
	bool found = false;

	begin_at_seen(s);
	set_base(s);
	s->tries = 0;
	s->most = PAIRS;
	for (uint32_t i = 0; i < s->writers; i++)
		for (uint32_t k = i + 1; k < s->writers && !found; k++)
			found = try_pair(s, &s->writer[i], &s->writer[k]);
	s->most = most;
	return found;
}

/* Of writes over each other which nothing orders any may be the last. */
static bool try_tops(struct search *s)
{
	bool found = false;

	begin_at_known(s);
	set_base(s);
	s->tries = 0;
	for (uint32_t i = s->n; i-- && s->tries < s->most && !found;) {
		s->top = &table->entries[i];
		found = fits(s);
	}
	s->top = NULL;
	return found;
}

static bool try_any(struct search *s)
{
	return try_both(s) || (s->most == TRIES && (try_tops(s) || try_mixed(s) || try_pairs(s)));
}

static bool find_by_writers(struct search *s)
{
	gather(s);
	limit_in_order(s);
	if (try_any(s))
		return true;
	limit_by_entries(s);
	return s->by_queue ? try_any(s) : try_both(s);
}

/* What a member posted to another queue pair may have landed before what it had posted earlier. */
static bool find(struct search *s)
{
	bool found;

	s->by_queue = s->queues = false;
	found = find_by_writers(s);
	s->by_queue = s->queues;
	found = found || (s->by_queue && find_by_writers(s));
	if (found)
		note_seen(s);
	return found;
}

/* --------------------------------------------------------------------------- waiting */

static bool find_again(void *search)
{
	struct search *s = search;

	sr_page_writes_take_in(s->index, s->r->member);
	return find(s);
}

bool sr_read_again(const struct sr_thread *t, const struct sr_read_again *r, uint8_t *bytes, bool *by_several)
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
	*by_several = s.writers > 1;
	sr_search_in_vain();
	return false;
}
