/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/doubts.h"

#include <stdlib.h>
#include <string.h>

struct sr_race_doubts {
	const struct sr_race_run *r;
	uint32_t *first, *from; /* orders backwards: those to moment i come from from[first[i]] ... */
	uint8_t *sorts; /* of each of `from` */
	uint32_t *todo;
	uint8_t *marks;
	uint8_t *tried; /* by rank */
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
};

static uint8_t sort_of(const struct sr_moment_order *o)
{
	const uint8_t read = o->is_read ? IS_READ : 0;

	if (o->surety == SR_SURE)
		return IS_SURE | read;
	return o->is_bound ? IS_BOUND : o->surety == SR_DOUBTFUL ? IS_DOUBTFUL : IS_SEEN;
}

struct sr_race_doubts *sr_race_doubts_new(const struct sr_race_run *r)
{
	const struct sr_race_model *m = &r->model;
	struct sr_race_doubts *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->r = r;
	d->first = calloc(m->moments_n + 2, sizeof(*d->first));
	d->from = malloc((m->orders_n + 1) * sizeof(*d->from));
	d->sorts = malloc(m->orders_n + 1);
	d->todo = malloc((m->moments_n + 1) * sizeof(*d->todo));
	d->marks = malloc(m->moments_n + 1);
	for (size_t i = 0; i < r->borders_n; i++)
		d->ranks = r->borders[i].rank >= d->ranks ? r->borders[i].rank + 1 : d->ranks;
	d->tried = malloc(d->ranks + 1);
	d->beside = calloc(r->borders_n + 1, sizeof(*d->beside));
	if (!d->beside || !d->first || !d->from || !d->sorts || !d->todo || !d->marks || !d->tried) {
		sr_race_doubts_free(d);
		return NULL;
	}
	/* Some are in no list any more. */
	for (size_t i = 0; i < m->moments_n; i++)
		for (uint32_t k = m->moments[i].orders; k != SR_NO_MOMENT; k = m->orders[k].next)
			d->first[m->orders[k].to + 2]++;
	for (size_t i = 2; i < m->moments_n + 2; i++)
		d->first[i] += d->first[i - 1];
	for (size_t i = 0; i < m->moments_n; i++)
		for (uint32_t k = m->moments[i].orders; k != SR_NO_MOMENT; k = m->orders[k].next) {
			const uint32_t at = d->first[m->orders[k].to + 1]++;

			d->from[at] = (uint32_t)i;
			d->sorts[at] = sort_of(&m->orders[k]);
		}
	return d;
}

void sr_race_doubts_free(struct sr_race_doubts *d)
{
	if (!d)
		return;
	free(d->first);
	free(d->from);
	free(d->sorts);
	free(d->todo);
	free(d->marks);
	free(d->tried);
	for (size_t i = 0; d->beside && i < d->r->borders_n; i++)
		free(d->beside[i]);
	free(d->beside);
	free(d);
}

static void visit(struct sr_race_doubts *d, uint32_t moment, uint8_t mark, size_t *n)
{
	if (d->marks[moment] & mark)
		return;
	d->marks[moment] |= mark;
	d->todo[(*n)++] = moment;
}

/* By orders of these sorts.  What was come to first goes on first: so all lanes get on together, through memory that lies together. */
static void mark_before(struct sr_race_doubts *d, uint32_t moment, uint8_t sorts, uint8_t mark)
{
	size_t n = 0;

	visit(d, moment, mark, &n);
	for (size_t next = 0; next < n; next++) {
		const uint32_t at = d->todo[next];

		for (uint32_t i = d->first[at]; i < d->first[at + 1]; i++)
			if (d->sorts[i] & sorts)
				visit(d, d->from[i], mark, &n);
	}
}

static void mark_after(struct sr_race_doubts *d, uint32_t moment, uint8_t sorts, uint8_t mark)
{
	const struct sr_race_model *m = &d->r->model;
	size_t n = 0;

	if (moment == SR_NO_MOMENT)
		return;
	visit(d, moment, mark, &n);
	for (size_t next = 0; next < n; next++) {
		const uint32_t at = d->todo[next];

		for (uint32_t k = m->moments[at].orders; k != SR_NO_MOMENT; k = m->orders[k].next)
			if (sort_of(&m->orders[k]) & sorts)
				visit(d, m->orders[k].to, mark, &n);
	}
}

static void mark_after_access(struct sr_race_doubts *d, const struct sr_access *a, uint8_t mark)
{
	if (a->until == SR_NO_MOMENT || !(d->marks[a->until] & mark))
		mark_after(d, a->until, MAY_BE, mark);
}

/* Finds the moments at which something was told that this entry did not come before in this run: SR_NO_MOMENT ends them.  NULL: no memory. */
static uint32_t *find_beside(struct sr_race_doubts *d, const struct sr_race_border *entry)
{
	const struct sr_race_run *r = d->r;
	uint32_t *found = malloc((r->borders_n + 1) * sizeof(*found));
	size_t n = 0;

	mark_after(d, entry->moment, IN_THIS_RUN, AFTER_ENTRY);
	for (size_t i = 0; found && i < r->borders_n; i++)
		if (!r->borders[i].is_entry && !(d->marks[r->borders[i].moment] & AFTER_ENTRY))
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
		if (!(d->marks[*moments] & mark) == !has)
			return true;
	return false;
}

/* Was something told after an access that this entry can have come from?  What was told surely before the access was not. */
static bool was_told(struct sr_race_doubts *d, const struct sr_race_border *entry, const struct sr_access *a, uint8_t after)
{
	const uint8_t surely_before = after == AFTER_A ? SURELY_BEFORE_A : SURELY_BEFORE_B;
	const uint32_t *told;

	/* Memory that outsiders may read tells them everything. */
	if (!entry->is_socket)
		return true;
	told = beside(d, entry);
	if (!told)
		return true;
	if (!any_has(d, told, surely_before, false))
		return false;
	mark_after_access(d, a, after);
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
		if (!(d->marks[i] & BEFORE_A) && r->first[lane] == SR_NO_MOMENT)
			r->first[lane] = (uint32_t)i;
		if (!(d->marks[i] & AFTER_B))
			r->last[lane] = (uint32_t)i;
	}
}

/* Do all ranks, at their last moments, know what is marked? */
static bool know_marked(const struct sr_race_doubts *d, const struct around *r, size_t but, uint8_t mark)
{
	for (size_t k = 0; k < r->ranks; k++)
		if (k != but && (r->last[k] == SR_NO_MOMENT || !(d->marks[r->last[k]] & mark)))
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

/* What came in before one of the accesses, with these marks, may tell of which? */
static uint8_t asks_about(uint8_t marks)
{
	return (marks & BEFORE_A && !(marks & SURELY_BEFORE_B) ? AFTER_B : 0) | (marks & BEFORE_B && !(marks & SURELY_BEFORE_A) ? AFTER_A : 0);
}

bool sr_race_comes_before(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b)
{
	const uint32_t at = b->from;

	if (at == SR_NO_MOMENT)
		return false;
	memset(d->marks, 0, d->r->model.moments_n);
	for (uint32_t i = d->first[at]; i < d->first[at + 1]; i++)
		if (d->sorts[i] & IS_SURE && !(d->sorts[i] & IS_READ))
			mark_before(d, d->from[i], IS_SURE, BEFORE_B);
	return (a->until != SR_NO_MOMENT && d->marks[a->until]) || (a->over != SR_NO_MOMENT && d->marks[a->over]);
}

uint16_t sr_race_may_be_ordered_outside(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b)
{
	const struct sr_race_run *r = d->r;

	if (!r->borders_n)
		return 0;
	memset(d->marks, 0, r->model.moments_n);
	mark_before(d, a->from, MAY_BE, BEFORE_A);
	mark_before(d, b->from, MAY_BE, BEFORE_B);
	mark_before(d, a->from, IN_THIS_RUN, SURELY_BEFORE_A);
	mark_before(d, b->from, IN_THIS_RUN, SURELY_BEFORE_B);
	memset(d->tried, 0, d->ranks);
	/* What a rank was told last can come from all that what it was told before can come from. */
	for (size_t i = r->borders_n; i-- > 0;) {
		const struct sr_race_border *e = &r->borders[i];
		const uint8_t asks = e->is_entry ? asks_about(d->marks[e->moment]) & (uint8_t)~(e->is_socket ? d->tried[e->rank] : 0) : 0;

		if ((asks & AFTER_B && was_told(d, e, b, AFTER_B)) || (asks & AFTER_A && was_told(d, e, a, AFTER_A)))
			return e->is_value ? SR_DOUBT_ORDER : SR_DOUBT_OUTSIDE;
		if (e->is_socket)
			d->tried[e->rank] |= asks;
	}
	return 0;
}
