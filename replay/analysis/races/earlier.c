/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/earlier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/races/owned_ranges.h"

/* Behind a load so many accesses are looked at, its own rank's and others'. */
#define BEHIND_MOST 2048
#define OWN_MOST    256
/* So many questions are asked that each take a pass over all moments. */
#define QUESTIONS_MOST 256

/* An agent of its own: an access that is done in this run stays in its row, whatever it would have been otherwise. */
#define AGENT_EARLIER (SR_AGENT_CPU | SR_AGENT_RECEIVE)

struct search {
	const struct sr_race_earlier *e;
	struct sr_race_model m;   /* with a further moment in front of each load in question, at which it finds the first skipped WRITE */
	uint32_t first, *further; /* first: of these moments; further: by moment of a load */
	uint32_t *lanes;          /* of these, by rank */
	const struct sr_race_skip **skips; /* by further moment */
	size_t skips_n, skips_room;
	struct sr_owned_ranges ranges; /* of their accesses */
	unsigned int questions;
};

static const struct sr_race_model *model_of(const struct search *s)
{
	return &s->e->run->model;
}

/* --------------------------------------------------------- accesses behind loads */

/* The first one at this moment or later. */
static size_t find_access(const struct sr_race_model *m, uint32_t moment)
{
	size_t low = 0, high = m->accesses_n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (m->accesses[middle].from < moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_of_cpu(const struct sr_race_skip *k, const struct sr_access *a)
{
	return a->rank == k->rank && (a->kind == SR_ACCESS_LOAD || a->kind == SR_ACCESS_STORE);
}

/* Is it behind the load, before the next call, and something else? */
static bool is_behind(const struct sr_race_skip *k, const struct sr_access *a)
{
	return is_of_cpu(k, a) && a->thread == k->thread && a->sn == k->sn && a->fault >= k->fault && a->pc &&
	       (a->begin >= k->end || k->begin >= a->end) && a->site_is != SR_SITE_CALL;
}

/* How often has the instruction been executed behind the load before? */
static uint32_t times_before(const struct sr_race_model *m, const struct sr_race_skip *k, size_t first, size_t access)
{
	uint32_t times = 0;

	for (size_t i = first; i < access; i++)
		times += is_behind(k, &m->accesses[i]) && m->accesses[i].pc == m->accesses[access].pc;
	return times;
}

/* The accesses behind the load, as they are if it finds an earlier WRITE at the further moment. */
static int add_behind(struct search *s, const struct sr_race_skip *k, uint32_t further)
{
	const struct sr_race_model *m = model_of(s);
	const size_t first = find_access(m, k->moment);
	size_t own = 0;

	for (size_t i = first; i < m->accesses_n && i < first + BEHIND_MOST && own < OWN_MOST; i++) {
		struct sr_access a = m->accesses[i];

		if (is_of_cpu(k, &a) && (a.thread != k->thread || a.sn != k->sn))
			break;
		if (!is_behind(k, &a))
			continue;
		own++;
		a.from = further;
		a.until = a.over = k->moment;
		a.agent = AGENT_EARLIER | k->rank;
		a.place = times_before(m, k, first, i); /* a CPU's access has no queue to have a place in */
		if (!sr_model_access(&s->m, a) || !sr_owned_ranges_add(&s->ranges, a.owner, a.begin, a.end))
			return -ENOMEM;
	}
	return 0;
}

/* What the others did there. */
static int add_others(struct search *s)
{
	const struct sr_race_model *m = model_of(s);

	for (size_t i = 0; i < m->accesses_n; i++) {
		const struct sr_access *a = &m->accesses[i];

		if (a->kind != SR_ACCESS_LOAD && a->kind != SR_ACCESS_STORE && a->kind != SR_ACCESS_MESSAGE && sr_owned_ranges_meet(&s->ranges, a->owner, a->begin, a->end) &&
		    !sr_model_access(&s->m, *a))
			return -ENOMEM;
	}
	return 0;
}

/* ---------------------------------------------------------------------- the model */

static void *copy_of(const void *from, size_t n, size_t size)
{
	void *copy = sr_large_make(n, size);

	return copy && n ? memcpy(copy, from, n * size) : copy;
}

/* But for the accesses. */
static int copy_model(struct search *s)
{
	const struct sr_race_model *m = model_of(s);

	s->m = *m;
	s->m.accesses = NULL;
	s->m.accesses_n = s->m.accesses_room = 0;
	s->m.moments = copy_of(m->moments, m->moments_n, sizeof(*m->moments));
	s->m.orders = copy_of(m->orders, m->orders_n, sizeof(*m->orders));
	s->m.choices = copy_of(m->choices, m->choices_n, sizeof(*m->choices));
	s->m.lanes = copy_of(m->lanes, m->lanes_n, sizeof(*m->lanes));
	s->m.held = copy_of(m->held, m->held_n, sizeof(*m->held));
	s->m.moments_room = m->moments_n;
	s->m.orders_room = m->orders_n;
	s->m.choices_room = m->choices_n;
	s->m.lanes_room = m->lanes_n;
	s->m.held_room = m->held_n;
	return s->m.moments && s->m.orders && s->m.choices && s->m.lanes && s->m.held ? 0 : -ENOMEM;
}

/* Further moments of one rank follow each other, as its loads do. */
static uint32_t lane_of(struct search *s, uint32_t rank)
{
	if (s->lanes[rank] == SR_NO_MOMENT)
		s->lanes[rank] = sr_model_lane(&s->m, false);
	return s->lanes[rank];
}

static int add_further(struct search *s)
{
	const struct sr_race_run *run = s->e->run;

	for (size_t i = 0; i < run->skips_n; i++) {
		const struct sr_race_skip *k = &run->skips[i];
		const struct sr_race_skip **at = sr_grow((void **)&s->skips, s->skips_n, &s->skips_room, sizeof(*at));

		if (!at)
			return -ENOMEM;
		if (s->further[k->moment] != SR_NO_MOMENT)
			continue;
		s->further[k->moment] = sr_model_moment(&s->m, lane_of(s, k->rank));
		*at = k;
		s->skips_n++;
	}
	return s->m.is_full ? -ENOMEM : 0;
}

/* What comes before the load, but for the WRITE that it found; false: what else it found is not one WRITE for certain. */
static bool may_follow(const struct sr_race_skip *k, uint32_t from, const struct sr_moment_order *o)
{
	return !o->choice && !(o->is_read && o->surety == SR_SURE && from != k->landing);
}

static void follow(struct search *s, uint32_t from, const struct sr_moment_order *o)
{
	const uint32_t further = s->further[o->to];
	const struct sr_race_skip **k;

	if (further == SR_NO_MOMENT)
		return;
	k = &s->skips[further - s->first];
	if (*k && !may_follow(*k, from, o))
		*k = NULL;
	if (!*k || (o->is_read && from == (*k)->landing))
		return;
	(o->is_bound ? sr_model_bound : sr_model_order)(&s->m, from, further, o->surety, false);
}

static void add_orders(struct search *s)
{
	const struct sr_race_model *m = model_of(s);

	for (uint32_t from = 0; from < m->moments_n; from++)
		for (uint32_t i = m->moments[from].orders; i != SR_NO_MOMENT; i = m->orders[i].next)
			follow(s, from, &m->orders[i]);
	for (size_t i = 0; i < s->skips_n; i++)
		if (s->skips[i]) {
			sr_model_order(&s->m, s->e->run->skipped[s->skips[i]->first].landing, s->first + (uint32_t)i, SR_SURE, false);
			sr_model_order(&s->m, s->first + (uint32_t)i, s->skips[i]->moment, SR_SURE, false);
		}
}

static int begin(struct search *s)
{
	const struct sr_race_run *run = s->e->run;
	const struct sr_race_model *m = model_of(s);
	uint32_t ranks = 0;

	for (size_t i = 0; i < run->skips_n; i++)
		ranks = run->skips[i].rank >= ranks ? run->skips[i].rank + 1 : ranks;
	s->first = (uint32_t)m->moments_n;
	s->further = malloc((m->moments_n + 1) * sizeof(*s->further));
	s->lanes = malloc((ranks + 1) * sizeof(*s->lanes));
	if (!s->further || !s->lanes)
		return -ENOMEM;
	memset(s->further, 0xff, (m->moments_n + 1) * sizeof(*s->further));
	memset(s->lanes, 0xff, (ranks + 1) * sizeof(*s->lanes));
	return 0;
}

static int make_model(struct search *s)
{
	int err = begin(s);

	if (!err)
		err = copy_model(s);
	if (!err)
		err = add_further(s);
	if (err)
		return err;
	add_orders(s);
	for (size_t i = 0; i < s->skips_n && !err; i++)
		if (s->skips[i])
			err = add_behind(s, s->skips[i], s->first + (uint32_t)i);
	sr_owned_ranges_join(&s->ranges);
	if (!err)
		err = add_others(s);
	sr_model_sort(&s->m);
	return err || s->m.is_full ? -ENOMEM : 0;
}

/* ---------------------------------------------------------------------- the search */

static uint32_t before_of(const struct sr_race_run *run, const struct sr_race_skip *k)
{
	const uint32_t lane = run->model.moments[k->moment].lane;

	for (uint32_t i = k->moment; i-- > 0;)
		if (run->model.moments[i].lane == lane)
			return i;
	return SR_NO_MOMENT;
}

bool sr_race_may_find(struct sr_race_doubts *d, const struct sr_race_run *run, const struct sr_race_skip *k, size_t skipped)
{
	const uint32_t next = skipped + 1 < k->first + k->n ? run->skipped[skipped + 1].landing : k->landing, before = before_of(run, k);

	return before == SR_NO_MOMENT || !sr_race_is_moment_before(d, next, before);
}

/* Does the other access come before this WRITE?  *is_asked: that took a pass over all moments. */
static bool comes_before(struct search *s, const struct sr_race_skip *k, const struct sr_access *other, const struct sr_race_skipped *w)
{
	if (other->queue == k->queue && other->kind == SR_ACCESS_WRITE)
		return other->place < w->place;
	s->questions++;
	return (other->until != SR_NO_MOMENT && (other->until == w->landing || sr_race_is_moment_before(s->e->doubts, other->until, w->landing))) ||
	       (other->over != SR_NO_MOMENT && sr_race_is_moment_before(s->e->doubts, other->over, w->landing));
}

/* The last skipped WRITE before which the other access need not come; the first one is such. */
static size_t last_beside(struct search *s, const struct sr_race_skip *k, const struct sr_access *other)
{
	const struct sr_race_skipped *all = s->e->run->skipped;
	size_t low = k->first, high = k->first + k->n;

	while (low + 1 < high) {
		const size_t middle = (low + high) / 2;

		if (comes_before(s, k, other, &all[middle]))
			high = middle;
		else
			low = middle;
	}
	return low;
}

static int take(void *argument, const struct sr_access *a, const struct sr_access *b, enum sr_surety unordered, uint16_t doubts)
{
	struct search *s = argument;
	const bool is_first = a->from >= s->first && a->from != SR_NO_MOMENT, is_second = b->from >= s->first && b->from != SR_NO_MOMENT;
	struct sr_race_earlier_pair p = {
	    .cpu = is_first ? *a : *b, .other = is_first ? *b : *a, .is_cpu_first = is_first, .unordered = unordered, .doubts = doubts};

	if (is_first == is_second || s->questions > QUESTIONS_MOST)
		return 0;
	p.skip = s->skips[p.cpu.from - s->first];
	p.skipped = last_beside(s, p.skip, &p.other);
	p.lead = (int64_t)(p.skipped - p.skip->first) - (int64_t)p.cpu.place;
	/* As it was in this run. */
	p.cpu.from = p.cpu.until = p.cpu.over = p.skip->moment;
	p.cpu.agent = SR_AGENT_CPU | p.cpu.rank;
	p.cpu.place = 0;
	return s->e->found(s->e->argument, &p);
}

static uint64_t origin(void *argument, const struct sr_access *a)
{
	const struct search *s = argument;

	return s->e->origin(s->e->argument, a);
}

int sr_race_find_earlier(const struct sr_race_earlier *e)
{
	struct search s = {.e = e};
	struct sr_sweep sweep = {.found = take, .origin = origin, .argument = &s};
	int ret = make_model(&s);

	if (!ret && s.ranges.n)
		ret = sr_sweep(&s.m, &sweep);
	sr_model_free(&s.m);
	free(s.further);
	free(s.lanes);
	free(s.skips);
	sr_owned_ranges_free(&s.ranges);
	return ret;
}
