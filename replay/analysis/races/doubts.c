/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/doubts.h"

#include <stdlib.h>
#include <string.h>

struct sr_race_doubts {
	const struct sr_race_run *r;
	uint32_t *first, *from; /* orders backwards: those to moment i come from from[first[i]] ... */
	uint32_t *todo;
	uint8_t *marks;
};

enum { BEFORE_A = 1, BEFORE_B = 2, AFTER_A = 4, AFTER_B = 8, AFTER_ENTRY = 16 };

struct sr_race_doubts *sr_race_doubts_new(const struct sr_race_run *r)
{
	const struct sr_race_model *m = &r->model;
	struct sr_race_doubts *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->r = r;
	d->first = calloc(m->moments_n + 2, sizeof(*d->first));
	d->from = malloc((m->orders_n + 1) * sizeof(*d->from));
	d->todo = malloc((m->moments_n + 1) * sizeof(*d->todo));
	d->marks = malloc(m->moments_n + 1);
	if (!d->first || !d->from || !d->todo || !d->marks) {
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
		for (uint32_t k = m->moments[i].orders; k != SR_NO_MOMENT; k = m->orders[k].next)
			d->from[d->first[m->orders[k].to + 1]++] = (uint32_t)i;
	return d;
}

void sr_race_doubts_free(struct sr_race_doubts *d)
{
	if (!d)
		return;
	free(d->first);
	free(d->from);
	free(d->todo);
	free(d->marks);
	free(d);
}

static void visit(struct sr_race_doubts *d, uint32_t moment, uint8_t mark, size_t *n)
{
	if (d->marks[moment] & mark)
		return;
	d->marks[moment] |= mark;
	d->todo[(*n)++] = moment;
}

static void mark_before(struct sr_race_doubts *d, uint32_t moment, uint8_t mark)
{
	size_t n = 0;

	visit(d, moment, mark, &n);
	while (n) {
		uint32_t at = d->todo[--n];

		for (uint32_t i = d->first[at]; i < d->first[at + 1]; i++)
			visit(d, d->from[i], mark, &n);
	}
}

static void mark_after(struct sr_race_doubts *d, uint32_t moment, uint8_t mark)
{
	const struct sr_race_model *m = &d->r->model;
	size_t n = 0;

	if (moment == SR_NO_MOMENT)
		return;
	visit(d, moment, mark, &n);
	while (n) {
		uint32_t at = d->todo[--n];

		for (uint32_t k = m->moments[at].orders; k != SR_NO_MOMENT; k = m->orders[k].next)
			visit(d, m->orders[k].to, mark, &n);
	}
}

/* Was something told after an access that this entry can have come from? */
static bool was_told(struct sr_race_doubts *d, const struct sr_race_border *entry, uint8_t after)
{
	const struct sr_race_run *r = d->r;
	bool found = false;

	/* Memory that outsiders may read tells them everything. */
	if (!entry->is_socket)
		return true;
	mark_after(d, entry->moment, AFTER_ENTRY);
	for (size_t i = 0; i < r->borders_n && !found; i++)
		found = !r->borders[i].is_entry && d->marks[r->borders[i].moment] & after &&
			!(d->marks[r->borders[i].moment] & AFTER_ENTRY);
	for (size_t i = 0; i < r->model.moments_n; i++)
		d->marks[i] &= (uint8_t)~AFTER_ENTRY;
	return found;
}

uint16_t sr_race_may_be_ordered_outside(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b)
{
	const struct sr_race_run *r = d->r;

	if (!r->borders_n)
		return 0;
	memset(d->marks, 0, r->model.moments_n);
	mark_before(d, a->from, BEFORE_A);
	mark_before(d, b->from, BEFORE_B);
	mark_after(d, a->until, AFTER_A);
	mark_after(d, b->until, AFTER_B);
	for (size_t i = 0; i < r->borders_n; i++) {
		const struct sr_race_border *e = &r->borders[i];
		uint8_t marks = d->marks[e->moment] & (BEFORE_A | BEFORE_B);

		if (!e->is_entry || (marks != BEFORE_A && marks != BEFORE_B))
			continue;
		if (was_told(d, e, marks == BEFORE_B ? AFTER_A : AFTER_B))
			return e->is_value ? SR_DOUBT_ORDER : SR_DOUBT_OUTSIDE;
	}
	return 0;
}
