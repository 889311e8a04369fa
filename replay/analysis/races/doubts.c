/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/doubts.h"

#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/large.h"

/*
 * Moments have places here, in an order in which those that come before others are before them (but for orders that contradict
 * each other): a question is one pass over all that come before or after.
 */
struct sr_race_doubts {
	const struct sr_race_run *r;
	uint32_t *place;  /* by moment */
	uint32_t *moment; /* by place */
	uint32_t *first, *from; /* orders backwards, of places: those to place i come from from[first[i]] ... */
	uint8_t *sorts; /* of each of `from` */
	struct backward {
		uint32_t from, to;
		uint8_t sorts;
	} *backward; /* orders from a later place */
	size_t backward_n;
	uint8_t *marks; /* by place */
	uint8_t *tried; /* by rank: marks */
	size_t ranks;
	uint32_t **beside; /* by border: see beside() */
};

enum {
	BEFORE_A = 1,
	BEFORE_B = 2,
	AFTER_A = 4,
	AFTER_B = 8,
	AFTER_ENTRY = 16,
	SURELY_BEFORE_A = 32, /* ... in this run */
	SURELY_BEFORE_B = 64,
};

/* Which orders count; each an order's sort, as a bit. */
enum {
	IS_SURE = 1,     /* in every run */
	IS_DOUBTFUL = 2, /* a value may have come from there */
	IS_SEEN = 4,     /* in this run */
	IS_BOUND = 8,    /* a limit */
	IS_READ = 16,    /* beside one of these: it read what the other one wrote */
	IN_THIS_RUN = IS_SURE | IS_SEEN,
	MAY_BE = IS_SURE | IS_DOUBTFUL | IS_SEEN | IS_BOUND,
	SORTS = 32,
};

/* A mark, and the orders by which it goes on. */
struct spread {
	uint8_t mark, sorts;
};

static uint8_t sort_of(const struct sr_moment_order *o)
{
	const uint8_t read = o->is_read ? IS_READ : 0;

	if (o->surety == SR_SURE)
		return IS_SURE | read;
	return o->is_bound ? IS_BOUND : o->surety == SR_DOUBTFUL ? IS_DOUBTFUL : IS_SEEN;
}

/* Gives all moments places: each behind those that it waits for; if all wait for each other, the first one goes on.  false: no memory. */
static bool place_moments(struct sr_race_doubts *d)
{
	const struct sr_race_model *m = &d->r->model;
	uint32_t *waits = sr_large_make(m->moments_n + 1, sizeof(*waits));
	size_t placed = 0, next = 0, open = 0;

	if (!waits)
		return false;
	for (size_t i = 0; i < m->moments_n; i++) {
		waits[i] = m->moments[i].waits;
		d->place[i] = SR_NO_MOMENT;
		if (!waits[i]) {
			d->place[i] = (uint32_t)placed;
			d->moment[placed++] = (uint32_t)i;
		}
	}
	while (next < m->moments_n) {
		while (next == placed && d->place[open] != SR_NO_MOMENT)
			open++;
		if (next == placed) {
			d->place[open] = (uint32_t)placed;
			d->moment[placed++] = (uint32_t)open;
		}
		for (uint32_t k = m->moments[d->moment[next++]].orders; k != SR_NO_MOMENT; k = m->orders[k].next) {
			const uint32_t to = m->orders[k].to;

			if (--waits[to] || d->place[to] != SR_NO_MOMENT)
				continue;
			d->place[to] = (uint32_t)placed;
			d->moment[placed++] = to;
		}
	}
	sr_large_free(waits, m->moments_n + 1, sizeof(*waits));
	return true;
}

static void list_orders(struct sr_race_doubts *d)
{
	const struct sr_race_model *m = &d->r->model;

	for (size_t i = 0; i < m->moments_n; i++)
		d->first[i + 2] = m->moments[d->moment[i]].waits;
	for (size_t i = 2; i < m->moments_n + 2; i++)
		d->first[i] += d->first[i - 1];
	for (size_t i = 0; i < m->moments_n; i++)
		for (uint32_t k = m->moments[d->moment[i]].orders; k != SR_NO_MOMENT; k = m->orders[k].next) {
			const uint32_t to = d->place[m->orders[k].to], at = d->first[to + 1]++;

			d->from[at] = (uint32_t)i;
			d->sorts[at] = sort_of(&m->orders[k]);
			d->backward_n += i > to;
		}
}

/* false: no memory. */
static bool list_backward(struct sr_race_doubts *d)
{
	size_t n = 0;

	d->backward = malloc((d->backward_n + 1) * sizeof(*d->backward));
	for (size_t to = 0; d->backward && d->backward_n && to < d->r->model.moments_n; to++)
		for (uint32_t i = d->first[to]; i < d->first[to + 1]; i++)
			if (d->from[i] > to)
				d->backward[n++] = (struct backward){d->from[i], (uint32_t)to, d->sorts[i]};
	return d->backward;
}

struct sr_race_doubts *sr_race_doubts_new(const struct sr_race_run *r)
{
	const struct sr_race_model *m = &r->model;
	struct sr_race_doubts *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->r = r;
	d->place = sr_large_make(m->moments_n + 1, sizeof(*d->place));
	d->moment = sr_large_make(m->moments_n + 1, sizeof(*d->moment));
	d->first = sr_large_zeroed(m->moments_n + 2, sizeof(*d->first));
	d->from = sr_large_make(m->orders_n + 1, sizeof(*d->from));
	d->sorts = sr_large_make(m->orders_n + 1, sizeof(*d->sorts));
	d->marks = sr_large_make(m->moments_n + 1, sizeof(*d->marks));
	for (size_t i = 0; i < r->borders_n; i++)
		d->ranks = r->borders[i].rank >= d->ranks ? r->borders[i].rank + 1 : d->ranks;
	d->tried = malloc(d->ranks + 1);
	d->beside = calloc(r->borders_n + 1, sizeof(*d->beside));
	if (!d->beside || !d->place || !d->moment || !d->first || !d->from || !d->sorts || !d->marks || !d->tried || !place_moments(d)) {
		sr_race_doubts_free(d);
		return NULL;
	}
	list_orders(d);
	if (!list_backward(d)) {
		sr_race_doubts_free(d);
		return NULL;
	}
	return d;
}

static void *make(void *run)
{
	return sr_race_doubts_new(run);
}

void sr_race_doubts_begin(struct sr_race_doubts_making *m, const struct sr_race_run *r)
{
	m->is_under_way = !pthread_create(&m->thread, NULL, make, (void *)r);
}

struct sr_race_doubts *sr_race_doubts_end(struct sr_race_doubts_making *m)
{
	void *made = NULL;

	if (m->is_under_way)
		pthread_join(m->thread, &made);
	m->is_under_way = false;
	return made;
}

void sr_race_doubts_free(struct sr_race_doubts *d)
{
	const struct sr_race_model *m = d ? &d->r->model : NULL;

	if (!d)
		return;
	sr_large_free(d->place, m->moments_n + 1, sizeof(*d->place));
	sr_large_free(d->moment, m->moments_n + 1, sizeof(*d->moment));
	sr_large_free(d->first, m->moments_n + 2, sizeof(*d->first));
	sr_large_free(d->from, m->orders_n + 1, sizeof(*d->from));
	sr_large_free(d->sorts, m->orders_n + 1, sizeof(*d->sorts));
	free(d->backward);
	sr_large_free(d->marks, m->moments_n + 1, sizeof(*d->marks));
	free(d->tried);
	for (size_t i = 0; d->beside && i < d->r->borders_n; i++)
		free(d->beside[i]);
	free(d->beside);
	free(d);
}

/* Which of the marks go on by an order of each sort. */
static void allow(uint8_t allowed[SORTS], const struct spread *s, size_t n)
{
	for (unsigned int sort = 0; sort < SORTS; sort++) {
		allowed[sort] = 0;
		for (size_t i = 0; i < n; i++)
			allowed[sort] |= sort & s[i].sorts ? s[i].mark : 0;
	}
}

static bool has_mark(const struct sr_race_doubts *d, uint32_t moment, uint8_t marks)
{
	return d->marks[d->place[moment]] & marks;
}

static void mark(struct sr_race_doubts *d, uint32_t moment, uint8_t marks)
{
	d->marks[d->place[moment]] |= marks;
}

/* The marks of all places up to this one go on to what comes before. */
static void spread_before(struct sr_race_doubts *d, uint32_t place, const struct spread *s, size_t n)
{
	uint8_t allowed[SORTS];
	size_t again = (size_t)place + 1;

	allow(allowed, s, n);
	while (again) {
		size_t at = again;

		for (again = 0; at-- > 0;)
			for (uint32_t i = d->first[at]; d->marks[at] && i < d->first[at + 1]; i++) {
				uint8_t *to = &d->marks[d->from[i]];
				const uint8_t more = d->marks[at] & allowed[d->sorts[i]] & (uint8_t)~*to;

				*to |= more;
				if (more && d->from[i] >= at && d->from[i] + 1u > again)
					again = d->from[i] + 1u;
			}
	}
}

/* The marks of this place and those behind it go on to what comes after. */
static void spread_after(struct sr_race_doubts *d, uint32_t place, const struct spread *s)
{
	const size_t n = d->r->model.moments_n;
	uint8_t allowed[SORTS];
	size_t again = place;

	allow(allowed, s, 1);
	while (again < n) {
		for (size_t at = again; at < n; at++) {
			uint8_t more = 0;

			for (uint32_t i = d->first[at]; i < d->first[at + 1]; i++)
				more |= d->marks[d->from[i]] & allowed[d->sorts[i]];
			d->marks[at] |= more;
		}
		again = n;
		for (size_t i = 0; i < d->backward_n; i++) {
			const struct backward *b = &d->backward[i];

			if (!(d->marks[b->from] & allowed[b->sorts] & (uint8_t)~d->marks[b->to]))
				continue;
			d->marks[b->to] |= s->mark;
			again = b->to < again ? b->to : again;
		}
	}
}

static void mark_after(struct sr_race_doubts *d, uint32_t moment, uint8_t sorts, uint8_t marks)
{
	if (moment == SR_NO_MOMENT || has_mark(d, moment, marks))
		return;
	mark(d, moment, marks);
	spread_after(d, d->place[moment], &(struct spread){marks, sorts});
}

static void mark_before(struct sr_race_doubts *d, uint32_t moment, uint8_t sorts, uint8_t marks)
{
	mark(d, moment, marks);
	spread_before(d, d->place[moment], &(struct spread){marks, sorts}, 1);
}

/* Finds the moments at which something was told that this entry did not come before in this run: SR_NO_MOMENT ends them.  NULL: no memory. */
static uint32_t *find_beside(struct sr_race_doubts *d, const struct sr_race_border *entry)
{
	const struct sr_race_run *r = d->r;
	uint32_t *found = malloc((r->borders_n + 1) * sizeof(*found));
	size_t n = 0;

	mark_after(d, entry->moment, IN_THIS_RUN, AFTER_ENTRY);
	for (size_t i = 0; found && i < r->borders_n; i++)
		if (!r->borders[i].is_entry && !has_mark(d, r->borders[i].moment, AFTER_ENTRY))
			found[n++] = r->borders[i].moment;
	if (found)
		found[n] = SR_NO_MOMENT;
	for (size_t i = 0; i < r->model.moments_n; i++)
		d->marks[i] &= (uint8_t)~AFTER_ENTRY;
	return found;
}

/* The same, found once: few entries are asked about, and by many races. */
static const uint32_t *beside(struct sr_race_doubts *d, const struct sr_race_border *entry)
{
	uint32_t **at = &d->beside[entry - d->r->borders];

	if (!*at)
		*at = find_beside(d, entry);
	return *at;
}

static bool any_has(const struct sr_race_doubts *d, const uint32_t *moments, uint8_t mark, bool has)
{
	for (; *moments != SR_NO_MOMENT; moments++)
		if (has_mark(d, *moments, mark) == has)
			return true;
	return false;
}

/*
 * What was read without a clock may come from what was told after an access, unless it came surely before that: so may all
 * that its rank did from then on.
 */
static void mark_unclocked(struct sr_race_doubts *d, uint8_t after, uint8_t surely_before)
{
	const struct sr_race_run *r = d->r;

	for (size_t i = 0; i < r->borders_n; i++) {
		const struct sr_race_border *e = &r->borders[i];

		if (!e->is_unclocked || d->tried[e->rank] & surely_before || has_mark(d, e->moment, surely_before))
			continue;
		d->tried[e->rank] |= surely_before;
		mark_after(d, e->moment, MAY_BE, after);
	}
}

/* Was something told after an access that this entry can have come from?  What was told surely before the access was not. */
static bool was_told(struct sr_race_doubts *d, const struct sr_race_border *entry, const struct sr_access *a, uint8_t after)
{
	const uint8_t surely_before = after == AFTER_A ? SURELY_BEFORE_A : SURELY_BEFORE_B;
	const uint32_t *told;

	if (entry->is_end) {
		mark_after(d, a->until, MAY_BE, after);
		mark_unclocked(d, after, surely_before);
		return has_mark(d, entry->end, after) && !has_mark(d, entry->end, surely_before);
	}
	/* Memory that outsiders may read tells them everything. */
	if (!entry->is_socket)
		return true;
	told = beside(d, entry);
	if (!told)
		return true;
	if (!any_has(d, told, surely_before, false))
		return false;
	mark_after(d, a->until, MAY_BE, after);
	mark_unclocked(d, after, surely_before);
	return any_has(d, told, after, true);
}

/* Of each rank's lane, the first moment that is not before `a`, and the last one that is not after `b`. */
struct around {
	size_t ranks;
	uint32_t *first, *last;
};

static void find_around(const struct sr_race_doubts *d, struct around *r)
{
	const struct sr_race_model *m = &d->r->model;

	memset(r->first, 0xff, r->ranks * sizeof(*r->first));
	memset(r->last, 0xff, r->ranks * sizeof(*r->last));
	for (size_t i = 0; i < m->moments_n; i++) {
		const uint32_t lane = m->moments[i].lane;

		if (lane >= r->ranks)
			continue;
		if (!has_mark(d, (uint32_t)i, BEFORE_A) && r->first[lane] == SR_NO_MOMENT)
			r->first[lane] = (uint32_t)i;
		if (!has_mark(d, (uint32_t)i, AFTER_B))
			r->last[lane] = (uint32_t)i;
	}
}

/* Do all ranks, at their last moments, know what is marked? */
static bool know_marked(const struct sr_race_doubts *d, const struct around *r, size_t but, uint8_t mark)
{
	for (size_t k = 0; k < r->ranks; k++)
		if (k != but && (r->last[k] == SR_NO_MOMENT || !has_mark(d, r->last[k], mark)))
			return false;
	return true;
}

static bool do_all_know(struct sr_race_doubts *d, const struct around *r, const struct sr_access *a)
{
	mark_after(d, a->until, IS_SURE | IS_DOUBTFUL, AFTER_A);
	mark_after(d, a->over, IS_SURE | IS_DOUBTFUL, AFTER_A);
	if (!know_marked(d, r, a->rank, AFTER_A))
		return false;
	for (size_t j = 0; j < r->ranks; j++) {
		if (j == a->rank)
			continue;
		mark_after(d, r->first[j], IS_SURE | IS_DOUBTFUL, AFTER_ENTRY);
		if (!know_marked(d, r, j, AFTER_ENTRY))
			return false;
		for (size_t i = 0; i < d->r->model.moments_n; i++)
			d->marks[i] &= (uint8_t)~AFTER_ENTRY;
	}
	return true;
}

bool sr_race_do_all_know(struct sr_race_doubts *d, size_t ranks, const struct sr_access *a, const struct sr_access *b)
{
	struct around r = {ranks, malloc((ranks + 1) * sizeof(uint32_t)), malloc((ranks + 1) * sizeof(uint32_t))};
	bool is = true;

	if (r.first && r.last) {
		memset(d->marks, 0, d->r->model.moments_n);
		/* Where it is in doubt all know. */
		mark_before(d, a->from, IS_SURE, BEFORE_A);
		mark_after(d, b->from, IS_SURE, AFTER_B);
		find_around(d, &r);
		is = do_all_know(d, &r, a);
	}
	free(r.first);
	free(r.last);
	return is;
}

/* How many of the calls have a moment up to this one. */
static size_t calls_until(const struct sr_race_run *r, uint32_t moment)
{
	size_t low = 0, high = r->calls_n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (r->calls[middle].moment <= moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint16_t tell_entry(const struct sr_race_run *r, const struct sr_race_border *e, struct sr_race_entry *entry)
{
	size_t i = calls_until(r, e->moment);

	if (e->is_value)
		return SR_DOUBT_ORDER;
	if (e->is_end)
		return SR_DOUBT_END;
	if (e->is_unclocked)
		return SR_DOUBT_UNCLOCKED;
	if (e->is_shared)
		return SR_DOUBT_SHARED;
	while (i && r->model.moments[r->calls[i - 1].moment].lane != e->rank)
		i--;
	*entry = (struct sr_race_entry){i ? &r->calls[i - 1] : NULL, e->rank, e->is_socket};
	return SR_DOUBT_OUTSIDE;
}

/* What came in before one of the accesses, with these marks, may tell of which? */
static uint8_t asks_about(uint8_t marks)
{
	return (marks & BEFORE_A && !(marks & SURELY_BEFORE_B) ? AFTER_B : 0) | (marks & BEFORE_B && !(marks & SURELY_BEFORE_A) ? AFTER_A : 0);
}

/* The last moment of the entry's rank that has this mark, or the entry. */
static uint32_t last_with(const struct sr_race_doubts *d, const struct sr_race_border *e, uint8_t mark)
{
	const struct sr_race_model *m = &d->r->model;
	uint32_t i = (uint32_t)m->moments_n;

	while (--i > e->moment && !(m->moments[i].lane == m->moments[e->moment].lane && has_mark(d, i, mark)))
		;
	return i;
}

/* The same of an end, which its rank may know at any moment behind the entry. */
static uint8_t asks_about_end(const struct sr_race_doubts *d, const struct sr_race_border *e)
{
	const uint32_t before_a = last_with(d, e, BEFORE_A), before_b = last_with(d, e, BEFORE_B);
	const uint8_t a = before_a == e->moment ? 0 : d->marks[d->place[before_a]] & (BEFORE_A | SURELY_BEFORE_B);
	const uint8_t b = before_b == e->moment ? 0 : d->marks[d->place[before_b]] & (BEFORE_B | SURELY_BEFORE_A);

	return asks_about(a) | asks_about(b);
}

bool sr_race_is_moment_before(struct sr_race_doubts *d, uint32_t before, uint32_t moment)
{
	memset(d->marks, 0, d->r->model.moments_n);
	mark_before(d, moment, IS_SURE, BEFORE_A);
	return has_mark(d, before, BEFORE_A);
}

bool sr_race_comes_before(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b)
{
	uint32_t at;

	if (b->from == SR_NO_MOMENT)
		return false;
	at = d->place[b->from];
	memset(d->marks, 0, d->r->model.moments_n);
	for (uint32_t i = d->first[at]; i < d->first[at + 1]; i++)
		if (d->sorts[i] & IS_SURE && !(d->sorts[i] & IS_READ)) {
			d->marks[d->from[i]] |= BEFORE_B;
			spread_before(d, d->from[i], &(struct spread){BEFORE_B, IS_SURE}, 1);
		}
	return (a->until != SR_NO_MOMENT && has_mark(d, a->until, BEFORE_B)) || (a->over != SR_NO_MOMENT && has_mark(d, a->over, BEFORE_B));
}

uint16_t sr_race_may_be_ordered_outside(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b, struct sr_race_entry *entry)
{
	static const struct spread before[] = {
	    {BEFORE_A, MAY_BE}, {BEFORE_B, MAY_BE}, {SURELY_BEFORE_A, IN_THIS_RUN}, {SURELY_BEFORE_B, IN_THIS_RUN}};
	const struct sr_race_run *r = d->r;

	if (!r->borders_n)
		return 0;
	memset(d->marks, 0, r->model.moments_n);
	mark(d, a->from, BEFORE_A | SURELY_BEFORE_A);
	mark(d, b->from, BEFORE_B | SURELY_BEFORE_B);
	spread_before(d, d->place[a->from] > d->place[b->from] ? d->place[a->from] : d->place[b->from], before, sizeof(before) / sizeof(*before));
	memset(d->tried, 0, d->ranks);
	/* What a rank was told last can come from all that what it was told before can come from. */
	for (size_t i = r->borders_n; i-- > 0;) {
		const struct sr_race_border *e = &r->borders[i];
		const uint8_t may_ask = e->is_end ? asks_about_end(d, e) : asks_about(d->marks[d->place[e->moment]]);
		const uint8_t asks = e->is_entry ? may_ask & (uint8_t)~(e->is_socket ? d->tried[e->rank] : 0) : 0;

		if ((asks & AFTER_B && was_told(d, e, b, AFTER_B)) || (asks & AFTER_A && was_told(d, e, a, AFTER_A)))
			return tell_entry(r, e, entry);
		if (e->is_socket)
			d->tried[e->rank] |= asks;
	}
	return 0;
}

/* What an access read itself orders nothing in the other run.  Calling it once more undoes it. */
static void switch_reads_to(struct sr_race_doubts *d, uint32_t moment)
{
	const uint32_t at = d->place[moment];

	for (uint32_t i = d->first[at]; i < d->first[at + 1]; i++)
		if (d->sorts[i] & IS_READ)
			d->sorts[i] ^= IS_SURE;
}

static void mark_around(struct sr_race_doubts *d, const struct sr_access *x, uint8_t before, uint8_t after)
{
	mark_before(d, x->from, IS_SURE, before);
	mark_after(d, x->until, IS_SURE, after);
	mark_after(d, x->over, IS_SURE, after);
}

/* The first call of the rank, or from behind, that has all of these marks; NULL: none has. */
static const struct sr_race_call *call_with(const struct sr_race_doubts *d, uint32_t rank, uint8_t marks, bool from_behind)
{
	const struct sr_race_run *r = d->r;

	for (size_t i = 0; i < r->calls_n; i++) {
		const struct sr_race_call *c = &r->calls[from_behind ? r->calls_n - 1 - i : i];

		if (r->model.moments[c->moment].lane == rank && (d->marks[d->place[c->moment]] & marks) == marks)
			return c;
	}
	return NULL;
}

void sr_race_find_bounds(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b, struct sr_race_bounds *bounds)
{
	const uint32_t ranks[] = {a->rank, b->rank};

	*bounds = (struct sr_race_bounds){0};
	memset(d->marks, 0, d->r->model.moments_n);
	switch_reads_to(d, a->from);
	if (b->from != a->from)
		switch_reads_to(d, b->from);
	mark_around(d, a, BEFORE_A, AFTER_A);
	mark_around(d, b, BEFORE_B, AFTER_B);
	for (size_t i = 0; i < 1 + (a->rank != b->rank); i++) {
		bounds->before[i] = call_with(d, ranks[i], BEFORE_A | BEFORE_B, true);
		bounds->after[i] = call_with(d, ranks[i], AFTER_A | AFTER_B, false);
	}
	switch_reads_to(d, a->from);
	if (b->from != a->from)
		switch_reads_to(d, b->from);
}
