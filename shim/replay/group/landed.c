/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/landed.h"

#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/page.h"
#include "shim/memory/room.h"
#include "shim/replay/group/group.h"
#include "shim/replay/group/own.h"
#include "shim/replay/group/search.h"
#include "shim/replay/group/unpolled.h"
#include "shim/verbs/regions.h"

#define WRITERS 16  /* members that wrote to one value */
#define WRITES  2048 /* of these, the latest that are not known to have landed */
#define OWN     256 /* of the program's own stores, the latest */
#define SEQUENCE 8192 /* writes of a candidate */
#define ORDERED 1024 /* ... all orders of which are tried */
#define BRANCHES 128 /* ... at so many places: an operation's stack is small */
#define AGAIN   8   /* of each member, that have landed, but are tried again */
#define PAGES   (1u << 18) /* a power of two; pages that members write to */
#define ROOM    (64 * PAGE)
#define SCANNED (1u << 16) /* writes into one page */
#define OLD     64 /* of these, to the value, that have landed */

/*
 * The writes into each page, from the latest on: chains of numbers of the history, in which 0 ends a chain.  A
 * number's place here is that of its entry in the history.
 */
struct link {
	uint64_t before; /* the write into this page before it */
	uint64_t landed; /* the event with a value that showed that it had landed; 0: none so far */
	uint16_t from, end; /* its bytes, in the page */
};

struct head {
	uint64_t page; /* 0: free */
	uint64_t last;
};

/* A write, and where its bytes are in the value. */
struct write {
	uint64_t number, weight;
	uint64_t at; /* of its bytes, in the history */
	uint32_t from, length;
	uint16_t kind;
	uint16_t before; /* of an open atomic's word, so many bytes are in front of the value */
};

/* The writes of a member to a value, or those by one of its queue pairs, the first posted first. */
struct writer {
	int32_t member;
	uint32_t queue;  /* of the latest */
	uint32_t n;      /* how many there are */
	uint32_t landed; /* of these, the first ones, that have landed before */
	uint32_t known;  /* so many are known to have been posted before the value was found */
	uint32_t begin, end; /* the candidate: without these, it has none before, and none from here on */
	struct write w[WRITES];
};

/* Mapped, because the library's image has to stay small.  The lock of the exposed regions guards it. */
static struct table {
	struct link links[SR_GROUP_WRITES];
	struct head heads[PAGES];
	struct writer writer[WRITERS];
	struct write own[OWN]; /* the program's own stores, from the last one on */
	struct sr_unpolled_piece pieces[SR_UNPOLLED_PIECES];
	uint8_t sequence[SEQUENCE]; /* the writers of the candidate's writes, in their order */
	uint8_t room[ROOM];
} *table;
static uint64_t indexed; /* so many writes are in it */
static uint64_t events;  /* that had values to be filled in */

static struct link *link_of(uint64_t number)
{
	return &table->links[number % SR_GROUP_WRITES];
}

static struct head *head_of(uint64_t page)
{
	uint32_t at = (uint32_t)((page / PAGE * 0x9e3779b97f4a7c15ull) >> 40) % PAGES;

	for (uint32_t i = 0; i < PAGES; i++, at = (at + 1) % PAGES)
		if (!table->heads[at].page || table->heads[at].page == page)
			return &table->heads[at];
	return NULL;
}

static bool begin(void)
{
	if (!table)
		table = sr_map_zeroed(sizeof(*table));
	return table;
}

/* Takes in what has been written to this process's memory since. */
static void take_in(void)
{
	uint64_t writes = sr_history_writes(sr_group_self);
	struct sr_group_write w[32];

	while (indexed < writes) {
		uint32_t n = sr_history_read(sr_group_self, indexed + 1, w, 32);

		for (uint32_t i = 0; i < n && indexed < writes; i++) {
			struct head *h = head_of(sr_page_down(w[i].addr));

			indexed++;
			if (!h || sr_group_is_no_change(w[i].kind))
				continue;
			h->page = sr_page_down(w[i].addr);
			*link_of(indexed) = (struct link){.before = h->last,
							  .from = (uint16_t)(w[i].addr % PAGE),
							  .end = (uint16_t)(w[i].addr % PAGE + w[i].length)};
			h->last = indexed;
		}
	}
}

/* ------------------------------------------------------------ candidates */

struct search {
	const struct sr_exposed_value *v;
	uint8_t *bytes; /* of the candidate */
	uint32_t tries, most; /* candidates of a kind: so far, and at most */
	uint64_t knows[SR_GROUP_MEMBERS];
	uint32_t writers;
	bool by_queue; /* each queue pair is a writer */
	bool queues;   /* else: a member has several */
	uint32_t part; /* of the candidate's last write so many bytes; UINT32_MAX: all of them */
	uint32_t partial; /* the writer that it is of */
	bool all_orders;  /* of writes of several members that lie over each other */
	bool atomics;      /* there are open ones */
	uint32_t branches;
	bool seen;        /* those before a write that is known to have landed are in its place already */
	uint32_t own;     /* the program's own stores since the last value of this page */
	bool own_last;    /* ... are over all that had landed */
	bool passed;      /* the page was passed through: what the program has stored is there already */
	const uint8_t *before; /* ... over this; NULL: not known */
	uint32_t unpolled; /* so many pieces of messages that have not been polled are over all that had landed */
	const struct sr_exposed_value *given; /* values of the event in front of this one ... */
	uint32_t given_n;                     /* ... as far as they count */
};

static struct writer *writer_of(struct search *s, const struct sr_group_origin *o)
{
	for (uint32_t i = 0; i < s->writers; i++) {
		struct writer *w = &table->writer[i];

		if (w->member != o->member || (s->by_queue && w->queue != o->queue))
			continue;
		s->queues = s->queues || w->queue != o->queue;
		return w;
	}
	if (s->writers == WRITERS)
		return NULL;
	table->writer[s->writers].member = o->member;
	table->writer[s->writers].queue = o->queue;
	table->writer[s->writers].n = table->writer[s->writers].landed = table->writer[s->writers].known = 0;
	return &table->writer[s->writers++];
}

/* Had it landed before the values of this event were found? */
static bool is_old(uint64_t number)
{
	uint64_t landed = link_of(number)->landed;

	return landed && landed != events;
}

static void add(struct search *s, const struct sr_group_write *w, uint64_t number)
{
	const struct sr_exposed_value *v = s->v;
	uint64_t begin = w->addr > v->addr ? w->addr : v->addr;
	uint64_t end = w->addr + w->length < v->addr + v->length ? w->addr + w->length : v->addr + v->length;
	const struct write x = {.number = number,
				.weight = w->origin.weight,
				.at = w->at + (sr_group_is_open(w->kind) ? 0 : begin - w->addr),
				.from = (uint32_t)(begin - v->addr),
				.length = (uint32_t)(end - begin),
				.kind = w->kind,
				.before = (uint16_t)(begin - w->addr)};
	bool has_landed = is_old(number);
	struct writer *of;

	if (w->kind == SR_GROUP_OWN && s->own < OWN && !s->seen)
		table->own[s->own++] = x;
	/* Those of others are not in doubt. */
	if (begin >= end || (w->kind != SR_GROUP_BYTES && !sr_group_is_open(w->kind)))
		return;
	of = writer_of(s, &w->origin);
	if (!of || of->n == WRITES || (has_landed && of->landed == AGAIN))
		return;
	of->w[of->n++] = x;
	s->atomics |= sr_group_is_open(w->kind);
	of->landed += has_landed;
	of->known += w->origin.tick <= s->knows[w->origin.member];
}

static void reverse(struct writer *w)
{
	for (uint32_t i = 0; i < w->n / 2; i++) {
		struct write x = w->w[i];

		w->w[i] = w->w[w->n - 1 - i];
		w->w[w->n - 1 - i] = x;
	}
}

/* The writes that the value may consist of. */
static void gather(struct search *s)
{
	struct head *h = head_of(sr_page_down(s->v->addr));
	uint64_t number = h && h->page ? h->last : 0, from = s->v->addr % PAGE;
	uint32_t old = 0, scanned = 0;

	s->writers = s->own = 0;
	s->seen = s->atomics = false;
	for (; number && number + SR_GROUP_WRITES > indexed && old < OLD && scanned < SCANNED; scanned++) {
		const struct link *l = link_of(number);
		struct sr_group_write w;

		if (l->from < from + s->v->length && from < l->end) {
			old += is_old(number);
			s->seen = s->seen || is_old(number);
			if (sr_history_read(sr_group_self, number, &w, 1))
				add(s, &w, number);
		}
		number = l->before;
	}
	for (uint32_t i = 0; i < s->writers; i++)
		reverse(&table->writer[i]);
}

/* The result of an atomic may come to its rank only after this value was found. */
static void apply_atomic(const struct search *s, const struct write *w)
{
	const uint8_t *now = sr_exposed_backing((void *)s->v->addr);
	uint64_t word;

	memcpy(&word, now + w->from - w->before, sizeof(word));
	memcpy((uint8_t *)&word + w->before, s->bytes + w->from, w->length);
	word = sr_history_atomic(&(struct sr_group_write){.kind = w->kind, .at = w->at}, word);
	memcpy(s->bytes + w->from, (uint8_t *)&word + w->before, w->length);
}

static void apply(const struct search *s, const struct write *w, uint32_t length)
{
	if (sr_group_is_open(w->kind))
		apply_atomic(s, w);
	else
		sr_history_bytes(sr_group_self, w->at, s->bytes + w->from, length);
}

/* Does the writer's next write lie over any that others still have? */
static bool is_contended(const struct search *s, const uint32_t at[WRITERS], uint32_t of)
{
	const struct write *w = &table->writer[of].w[at[of]];

	for (uint32_t i = 0; i < s->writers; i++)
		for (uint32_t k = i == of ? table->writer[i].end : at[i]; k < table->writer[i].end; k++) {
			const struct write *x = &table->writer[i].w[k];

			if (x->from < w->from + w->length && w->from < x->from + x->length)
				return true;
		}
	return false;
}

/* Has the writer a later write over all of its next one?  Then nothing of that is to be seen, whatever others write before or after. */
static bool is_covered(const struct search *s, const uint32_t at[WRITERS], uint32_t of)
{
	const struct writer *writer = &table->writer[of];
	const struct write *w = &writer->w[at[of]];

	for (uint32_t k = at[of] + 1; k < writer->end; k++) {
		const struct write *x = &writer->w[k];
		bool in_part = s->part < x->length && of == s->partial && k + 1 == writer->end;

		if (x->from <= w->from && w->from + w->length <= x->from + (in_part ? s->part : x->length))
			return true;
	}
	return false;
}

/* -1: there is none, or an atomic may have found what nobody sees any more. */
static int first_covered(const struct search *s, const uint32_t at[WRITERS])
{
	for (uint32_t i = 0; i < s->writers && !s->atomics; i++)
		if (at[i] < table->writer[i].end && is_covered(s, at, i))
			return (int)i;
	return -1;
}

/* The writer whose next write comes first if what was known of other members decides; -1: none has more. */
static int first_known(const struct search *s, const uint32_t at[WRITERS])
{
	int first = -1;

	for (uint32_t i = 0; i < s->writers; i++)
		if (at[i] < table->writer[i].end &&
		    (first < 0 || table->writer[i].w[at[i]].weight < table->writer[first].w[at[first]].weight))
			first = (int)i;
	return first;
}

/* What the program has stored since values of this page were found last: over what had landed before. */
static void apply_own(const struct search *s)
{
	const uint8_t *now = sr_exposed_backing((void *)s->v->addr);

	for (uint32_t i = s->own; i--;)
		apply(s, &table->own[i], table->own[i].length);
	for (uint32_t i = 0; s->before && i < s->v->length; i++)
		if (s->before[i] != now[i])
			s->bytes[i] = now[i];
}

/* What the trace has of the event lies over all. */
static void apply_given(const struct search *s)
{
	for (uint32_t i = 0; i < s->given_n; i++) {
		const struct sr_exposed_value *g = &s->given[i];

		if (g->addr >= s->v->addr && g->addr + g->length <= s->v->addr + s->v->length)
			memcpy(s->bytes + (g->addr - s->v->addr), g->data, g->length);
	}
}

static void apply_piece(const struct search *s, const struct sr_unpolled_piece *p)
{
	const struct sr_exposed_value *v = s->v;
	uint64_t begin = p->at > v->addr ? p->at : v->addr;
	uint64_t end = p->at + p->n < v->addr + v->length ? p->at + p->n : v->addr + v->length;

	memcpy(s->bytes + (begin - v->addr), p->bytes + (begin - p->at), end - begin);
}

/* The candidate's writes, in the order of table->sequence. */
static bool has_checksum(struct search *s, uint32_t n)
{
	uint32_t at[WRITERS];

	s->tries++;
	memcpy(s->bytes, sr_exposed_backing((void *)s->v->addr), s->v->length);
	for (uint32_t i = 0; i < s->writers; i++)
		at[i] = table->writer[i].begin;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t of = table->sequence[k];
		const struct write *w = &table->writer[of].w[at[of]++];
		bool in_part = s->part != UINT32_MAX && of == s->partial && at[of] == table->writer[of].end;

		apply(s, w, in_part && s->part < w->length ? s->part : w->length);
	}
	if (s->own_last)
		apply_own(s);
	for (uint32_t i = 0; i < s->unpolled; i++)
		apply_piece(s, &table->pieces[i]);
	apply_given(s);
	return !((sr_checksum(s->bytes, s->v->length, 0) ^ s->v->checksum) & s->v->mask);
}

static bool try_orders(struct search *s, const uint32_t at[WRITERS], uint32_t n);

static bool try_next(struct search *s, uint32_t at[WRITERS], uint32_t n, uint32_t of)
{
	bool found;

	table->sequence[n] = (uint8_t)of;
	at[of]++;
	s->branches++;
	found = try_orders(s, at, n + 1);
	s->branches--;
	at[of]--;
	return found;
}

/* All orders of the candidate's writes, as far as they differ; the first is the one of what was known. */
static bool try_orders(struct search *s, const uint32_t from[WRITERS], uint32_t n)
{
	uint32_t at[WRITERS];
	int first, covered;

	memcpy(at, from, sizeof(at));
	for (; (first = first_known(s, at)) >= 0 && n < SEQUENCE; n++) {
		covered = s->all_orders ? first_covered(s, at) : -1;
		if (covered >= 0)
			first = covered;
		else if (s->all_orders && s->branches < BRANCHES && is_contended(s, at, (uint32_t)first))
			break;
		table->sequence[n] = (uint8_t)first;
		at[first]++;
	}
	if (first < 0)
		return has_checksum(s, n);
	if (n == SEQUENCE)
		return false;
	if (try_next(s, at, n, (uint32_t)first))
		return true;
	for (uint32_t i = 0; i < s->writers && s->tries < s->most; i++)
		if ((int)i != first && at[i] < table->writer[i].end && try_next(s, at, n, i))
			return true;
	return false;
}

static bool fits(struct search *s)
{
	uint32_t at[WRITERS] = {0};

	s->branches = 0;
	for (uint32_t i = 0; i < s->writers; i++)
		at[i] = table->writer[i].begin;
	return try_orders(s, at, 0);
}

/* The k-th cut of a writer to be tried: as known, one more, one fewer, two more, ...; -1: there is no other one. */
static int64_t cut(const struct writer *w, uint32_t k)
{
	uint32_t first = w->known > w->begin ? w->known : w->begin;
	uint32_t up = w->n - first, down = first - w->begin, both = up < down ? up : down;

	if (k > up + down)
		return -1;
	if (k <= 2 * both)
		return (int64_t)first + (k % 2 ? (int64_t)(k + 1) / 2 : -(int64_t)(k / 2));
	return up > down ? first + (k - both) : first - (k - both);
}

/* All combinations of cuts in which so many writers' are in all `away` from the first to be tried. */
static bool try_away(struct search *s, uint32_t i, uint32_t away)
{
	int64_t end;

	if (i == s->writers)
		return !away && fits(s);
	for (uint32_t k = i + 1 < s->writers ? 0 : away; k <= away && s->tries < s->most; k++) {
		end = cut(&table->writer[i], k);
		if (end < 0)
			break;
		table->writer[i].end = (uint32_t)end;
		if (try_away(s, i + 1, away - k))
			return true;
	}
	return false;
}

/* The nearest to what is known first. */
static bool try_cuts(struct search *s)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < s->writers; i++)
		most += table->writer[i].n - table->writer[i].begin;
	for (uint32_t away = 0; away <= most && s->tries < s->most; away++)
		if (try_away(s, 0, away))
			return true;
	return false;
}

/* A beginning of the last write of one writer, where the others' cuts are as known. */
static bool try_parts(struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		table->writer[i].end = (uint32_t)cut(&table->writer[i], 0);
	for (s->partial = 0; s->partial < s->writers; s->partial++) {
		struct writer *w = &table->writer[s->partial];
		uint32_t before = w->end;
		int64_t end;

		for (uint32_t k = 0; (end = cut(w, k)) >= 0; k++) {
			if ((uint32_t)end <= w->begin)
				continue;
			w->end = (uint32_t)end;
			for (s->part = 8; s->part < w->w[end - 1].length && s->tries < s->most; s->part += 8)
				if (fits(s))
					return true;
		}
		w->end = before;
	}
	s->part = UINT32_MAX;
	return false;
}

static void begin_behind_landed(const struct search *s, uint32_t again)
{
	for (uint32_t i = 0; i < s->writers; i++)
		table->writer[i].begin = table->writer[i].landed > again ? table->writer[i].landed - again : 0;
}

/* With what had landed before, or without it, or some of it. */
static bool try_all(struct search *s, bool all_orders)
{
	s->all_orders = all_orders;
	s->tries = 0;
	for (uint32_t again = 0; again <= AGAIN; again += again ? again : 1) {
		begin_behind_landed(s, again);
		if (try_cuts(s))
			return true;
	}
	begin_behind_landed(s, 0);
	return s->most == LANDED_TRIES && try_parts(s);
}

/* Has the program stored all of it itself? */
static bool is_own(struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		table->writer[i].begin = table->writer[i].end = 0;
	s->own_last = false;
	return has_checksum(s, 0);
}

static bool may_have_other_orders(const struct search *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->writers; i++)
		n += table->writer[i].n;
	return s->writers > 1 && n <= ORDERED;
}

static bool find_with_given(struct search *s)
{
	gather(s);
	s->part = UINT32_MAX;
	/* Of a large region's pages the recorder does not know what is there at first: it may be as the program has left it. */
	if ((s->passed || !s->writers) && is_own(s))
		return true;
	if (!s->writers)
		return false;
	for (int last = 0; last < (s->own || s->before ? 2 : 1); last++) {
		s->own_last = last;
		if (try_all(s, false) || (may_have_other_orders(s) && try_all(s, true)))
			return true;
	}
	return false;
}

/* What had been posted before, and the first n pieces over it. */
static bool fits_with(void *search, uint32_t n)
{
	struct search *s = search;
	bool found;

	for (uint32_t i = 0; i < s->writers; i++)
		table->writer[i].end = (uint32_t)cut(&table->writer[i], 0);
	s->unpolled = n;
	found = fits(s);
	s->unpolled = 0;
	return found;
}

/* Messages may have come whose completions have not been polled. */
static bool is_unpolled(struct search *s)
{
	const uint64_t page = sr_page_down(s->v->addr);
	uint64_t before = indexed;

	s->part = UINT32_MAX;
	s->own_last = s->all_orders = false;
	begin_behind_landed(s, 0);
	if (!sr_unpolled_find(&(struct sr_unpolled){s->v->addr, s->v->length, table->pieces, fits_with, s}))
		return false;
	take_in();
	for (uint64_t number = before + 1; number <= indexed; number++) {
		struct sr_group_write w;

		if (sr_history_read(sr_group_self, number, &w, 1) && sr_page_down(w.addr) == page && w.kind == SR_GROUP_BYTES)
			link_of(number)->landed = events;
	}
	return true;
}

/* Where memory changed within the event, what it has in front of the value may be older. */
static bool find_by_writers(struct search *s)
{
	uint32_t given = s->given_n;
	bool found = find_with_given(s) || is_unpolled(s);

	if (!found && given) {
		s->given_n = 0;
		found = find_with_given(s);
		s->given_n = given;
	}
	return found;
}

/* What a member posted to another queue pair may have landed before what it had posted earlier. */
static bool find(struct search *s)
{
	s->by_queue = s->queues = false;
	if (find_by_writers(s))
		return true;
	s->by_queue = s->queues;
	return s->by_queue && find_by_writers(s);
}

/* What is found in the value has landed, and what its members posted to it before. */
static void note_landed(const struct search *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		for (uint32_t k = 0; k < table->writer[i].end; k++)
			if (s->part == UINT32_MAX || i != s->partial || k + 1 < table->writer[i].end)
				link_of(table->writer[i].w[k].number)->landed = events;
}

/* ------------------------------------------------------------ waiting */

static bool find_again(void *search)
{
	take_in();
	return find(search);
}

/* No member may have come so far in this replay. */
static bool await(struct search *s)
{
	return sr_search_await(&(struct sr_search){
	    .member = sr_group_self, .writes = indexed, .find = find_again, .argument = s});
}

/* Nothing more will come. */
static bool find_among_all(struct search *s)
{
	s->most = LANDED_TRIES;
	return find_again(s);
}

/* Do several members write to the page, or its owner and another one? */
static bool is_of_several(uint64_t page)
{
	const struct head *h = head_of(page);
	uint64_t number = h && h->page == page ? h->last : 0;
	int32_t writer = -1;

	for (uint32_t scanned = 0; number && number + SR_GROUP_WRITES > indexed && scanned < SCANNED; scanned++) {
		struct sr_group_write w;

		if (sr_history_read(sr_group_self, number, &w, 1) && (w.kind == SR_GROUP_BYTES || w.kind == SR_GROUP_OWN)) {
			if (writer >= 0 && w.origin.member != writer)
				return true;
			writer = w.origin.member;
		}
		number = link_of(number)->before;
	}
	return false;
}

/* Where a recording had better have values: the user names it. */
static void find_contended(uint64_t addr, struct sr_landed_lack *lack)
{
	uint64_t begin = sr_page_down(addr), end = begin;

	while (is_of_several(end))
		end += PAGE;
	while (end > begin && is_of_several(begin - PAGE))
		begin -= PAGE;
	lack->contended = begin;
	lack->contended_bytes = end - begin;
}

/* How many values in front of this one the trace has, and lie in it. */
static uint32_t count_given(const struct sr_exposed_value *values, uint32_t i)
{
	uint32_t n = 0;

	while (n < i && !values[n].mask)
		n++;
	return n;
}

static bool is_of_one_member(const struct search *s)
{
	for (uint32_t i = 1; i < s->writers; i++)
		if (table->writer[i].member != table->writer[0].member)
			return false;
	return s->writers;
}

/* Was it found as a page stopped being passed through, or in what the program sends, from a page that may be? */
static bool may_be_own(const struct sr_exposed_event *e)
{
	return e->flags & SR_EXPOSED_ASYNC || (e->addr && !e->pc);
}

static enum sr_landed fill(struct sr_thread *t, const struct sr_exposed_event *e, struct sr_exposed_value *values, uint32_t which,
			   uint8_t *bytes, struct sr_landed_lack *lack)
{
	struct sr_exposed_value *v = &values[which];
	struct search s = {.v = v, .bytes = bytes, .most = LANDED_FIRST, .passed = may_be_own(e), .given = values,
			   .given_n = count_given(values, which)};

	if (s.passed)
		s.before = sr_contents_before(sr_page_down(v->addr));
	if (s.before)
		s.before += v->addr % PAGE;
	sr_progress_now(t, s.knows);
	sr_transfer_await_members();
	take_in();
	if (!find(&s) && !await(&s) && !find_among_all(&s)) {
		sr_search_in_vain();
		find_contended(v->addr, lack);
		if (s.passed) {
			lack->writer = sr_group_memory->member[sr_group_self].rank;
			return SR_LANDED_OTHERS;
		}
		lack->writer = is_of_one_member(&s) ? sr_group_memory->member[table->writer[0].member].rank : -1;
		return s.writers ? SR_LANDED_OTHERS : SR_LANDED_NOWHERE;
	}
	note_landed(&s);
	v->data = bytes;
	return SR_LANDED;
}

enum sr_landed sr_landed_fill(struct sr_thread *t, const struct sr_exposed_event *e,
			      struct sr_exposed_value *values, struct sr_landed_lack *lack)
{
	size_t used = 0;

	events++;
	for (uint32_t i = 0; i < e->values_n; i++) {
		enum sr_landed how = SR_LANDED_NOWHERE;

		if (values[i].data)
			continue;
		*lack = (struct sr_landed_lack){.which = i, .writer = -1};
		if (sr_group_on && begin() && used + values[i].length <= ROOM)
			how = fill(t, e, values, i, table->room + used, lack);
		if (how != SR_LANDED)
			return how;
		used += values[i].length;
	}
	return SR_LANDED;
}
