/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/large.h"

/* Accesses are sorted in their place as long as each is moved over so many others, on average. */
#define MOVED_MOST 4

void sr_model_free(struct sr_race_model *m)
{
	sr_large_free(m->moments, m->moments_room, sizeof(*m->moments));
	sr_large_free(m->orders, m->orders_room, sizeof(*m->orders));
	sr_large_free(m->choices, m->choices_room, sizeof(*m->choices));
	sr_large_free(m->lanes, m->lanes_room, sizeof(*m->lanes));
	sr_large_free(m->accesses, m->accesses_room, sizeof(*m->accesses));
	sr_large_free(m->held, m->held_room, sizeof(*m->held));
	*m = (struct sr_race_model){0};
}

uint32_t sr_model_lane(struct sr_race_model *m, bool is_loose)
{
	struct sr_lane *l = sr_large_grow((void **)&m->lanes, m->lanes_n, &m->lanes_room, sizeof(*l));

	if (!l) {
		m->is_full = true;
		return SR_NO_MOMENT;
	}
	*l = (struct sr_lane){.last = SR_NO_MOMENT, .is_loose = is_loose};
	return (uint32_t)m->lanes_n++;
}

uint32_t sr_model_moment(struct sr_race_model *m, uint32_t lane)
{
	struct sr_moment *at = sr_large_grow((void **)&m->moments, m->moments_n, &m->moments_room, sizeof(*at));
	uint32_t number = (uint32_t)m->moments_n, before;

	if (!at || m->moments_n == SR_NO_MOMENT || lane == SR_NO_MOMENT) {
		m->is_full = true;
		return SR_NO_MOMENT;
	}
	*at = (struct sr_moment){.lane = lane, .orders = SR_NO_MOMENT};
	m->moments_n++;
	before = m->lanes[lane].last;
	m->lanes[lane].last = number;
	if (!m->lanes[lane].is_loose)
		sr_model_order(m, before, number, SR_SURE, false);
	return number;
}

void sr_model_order(struct sr_race_model *m, uint32_t from, uint32_t to, enum sr_surety surety, bool is_read)
{
	struct sr_moment_order *o;

	if (from == SR_NO_MOMENT || to == SR_NO_MOMENT || from == to)
		return;
	o = sr_large_grow((void **)&m->orders, m->orders_n, &m->orders_room, sizeof(*o));
	if (!o || m->orders_n == SR_NO_MOMENT) {
		m->is_full = true;
		return;
	}
	*o = (struct sr_moment_order){.to = to, .next = m->moments[from].orders, .surety = surety, .is_read = is_read};
	m->moments[from].orders = (uint32_t)m->orders_n++;
	m->moments[to].waits++;
	m->moments[to].sure_waits += surety == SR_SURE;
}

void sr_model_bound(struct sr_race_model *m, uint32_t from, uint32_t to, enum sr_surety surety, bool is_read)
{
	const size_t n = m->orders_n;

	sr_model_order(m, from, to, surety, is_read);
	if (m->orders_n > n)
		m->orders[n].is_bound = true;
}

static void forget_order(struct sr_race_model *m, const struct sr_moment_order *o)
{
	m->moments[o->to].waits--;
	m->moments[o->to].sure_waits -= o->surety == SR_SURE;
	if (o->choice)
		m->choices[o->choice - 1]--;
}

void sr_model_cut_reads(struct sr_race_model *m, bool (*is_cut)(const void *argument, uint32_t from, uint32_t to),
			const void *argument)
{
	for (uint32_t from = 0; from < m->moments_n; from++) {
		uint32_t *link = &m->moments[from].orders;

		while (*link != SR_NO_MOMENT) {
			struct sr_moment_order *o = &m->orders[*link];

			if (!o->is_read || !is_cut(argument, from, o->to)) {
				link = &o->next;
				continue;
			}
			forget_order(m, o);
			*link = o->next;
		}
	}
}

uint32_t sr_model_choice(struct sr_race_model *m)
{
	uint32_t *at = (m->choices_n + 1) >> SR_CHOICE_BITS ? NULL : sr_large_grow((void **)&m->choices, m->choices_n, &m->choices_room, sizeof(*at));

	if (!at) {
		m->is_full = true;
		return 0;
	}
	*at = 0;
	return (uint32_t)++m->choices_n;
}

void sr_model_choose(struct sr_race_model *m, uint32_t choice, uint32_t from, uint32_t to)
{
	size_t n = m->orders_n;

	sr_model_order(m, from, to, SR_DOUBTFUL, true);
	if (m->orders_n == n || !choice)
		return;
	m->orders[n].choice = choice;
	m->choices[choice - 1]++;
}

struct sr_access *sr_model_access(struct sr_race_model *m, struct sr_access a)
{
	struct sr_access *at = sr_large_grow((void **)&m->accesses, m->accesses_n, &m->accesses_room, sizeof(*at));

	if (!at) {
		m->is_full = true;
		return NULL;
	}
	*at = a;
	m->accesses_n++;
	m->of_kind[a.kind]++;
	return at;
}

/* Accesses of one moment stay in a fixed order, so that the same trace gives the same report. */
static int by_moment(const void *a, const void *b)
{
	const struct sr_access *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->request != y->request)
		return x->request < y->request ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Of each access, its place by moment; those of one moment stay in their order, those without one are the last ones.  NULL: no memory. */
static uint32_t *find_places(const struct sr_race_model *m)
{
	uint32_t *first = sr_large_zeroed(m->moments_n + 2, sizeof(*first)), *places = sr_large_make(m->accesses_n + 1, sizeof(*places));

	if (!first || !places) {
		sr_large_free(first, m->moments_n + 2, sizeof(*first));
		sr_large_free(places, m->accesses_n + 1, sizeof(*places));
		return NULL;
	}
	for (size_t i = 0; i < m->accesses_n; i++)
		first[m->accesses[i].from < m->moments_n ? m->accesses[i].from + 1 : m->moments_n + 1]++;
	for (size_t i = 0; i <= m->moments_n; i++)
		first[i + 1] += first[i];
	for (size_t i = 0; i < m->accesses_n; i++)
		places[i] = first[m->accesses[i].from < m->moments_n ? m->accesses[i].from : m->moments_n]++;
	sr_large_free(first, m->moments_n + 2, sizeof(*first));
	return places;
}

/* There are too many for a second array: each goes to its place, and the one from there to its own. */
static void put_in_places(struct sr_access *all, uint32_t *places, size_t n)
{
	for (size_t i = 0; i < n; i++)
		while (places[i] != i) {
			const uint32_t to = places[i];
			const struct sr_access a = all[to];

			all[to] = all[i];
			all[i] = a;
			places[i] = places[to];
			places[to] = to;
		}
}

/* Few accesses have the same moment: by moment they are counted, and only those of one are compared. */
static bool sort_by_counting(struct sr_race_model *m)
{
	uint32_t *places = find_places(m);

	if (!places)
		return false;
	put_in_places(m->accesses, places, m->accesses_n);
	sr_large_free(places, m->accesses_n + 1, sizeof(*places));
	for (size_t i = 0, end; i < m->accesses_n; i = end) {
		for (end = i + 1; end < m->accesses_n && m->accesses[end].from == m->accesses[i].from; end++)
			;
		if (end > i + 1)
			qsort(m->accesses + i, end - i, sizeof(*m->accesses), by_moment);
	}
	return true;
}

/* They are added nearly in their order: most change places with the one before them.  false: they were not, and few are sorted. */
static bool sort_by_moving(struct sr_race_model *m)
{
	struct sr_access *all = m->accesses;
	size_t moved = 0;

	for (size_t i = 1; i < m->accesses_n; i++) {
		struct sr_access a;
		size_t at = i;

		if (by_moment(&all[i - 1], &all[i]) <= 0)
			continue;
		a = all[i];
		while (at && by_moment(&all[at - 1], &a) > 0)
			at--;
		moved += i - at;
		if (moved > MOVED_MOST * m->accesses_n)
			return false;
		memmove(&all[at + 1], &all[at], (i - at) * sizeof(*all));
		all[at] = a;
	}
	return true;
}

void sr_model_sort(struct sr_race_model *m)
{
	if (m->accesses_n && !sort_by_moving(m) && !sort_by_counting(m))
		qsort(m->accesses, m->accesses_n, sizeof(*m->accesses), by_moment);
}

int sr_model_hold(struct sr_race_model *m, const uint32_t *locks, size_t n)
{
	const size_t last = m->held_n ? m->held_n : 1;

	for (size_t i = m->held_n; i <= last + n; i++) {
		uint32_t *at = sr_large_grow((void **)&m->held, m->held_n, &m->held_room, sizeof(*at));

		if (!at)
			return -ENOMEM;
		*at = i < last ? 0 : i == last ? (uint32_t)n : locks[i - last - 1];
		m->held_n++;
	}
	m->held_last = last;
	return 0;
}

bool sr_model_excludes(const struct sr_race_model *m, const struct sr_access *a, const struct sr_access *b)
{
	if (!a->held || !b->held || a->rank == b->rank)
		return false;
	for (uint32_t i = 1; i <= m->held[a->held]; i++)
		for (uint32_t k = 1; k <= m->held[b->held]; k++)
			if (m->held[a->held + i] == m->held[b->held + k])
				return true;
	return false;
}
