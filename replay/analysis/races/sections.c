/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/sections.h"

#include <errno.h>
#include <stdlib.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/clocks.h"

/* Each may find orders that follow from those of the one before. */
#define PASSES_MOST 8

int sr_section_add(struct sr_sections *s, const struct sr_collect *c, uint64_t taken, uint64_t released, uint32_t lock)
{
	const struct sr_collected_request *take = &c->requests[taken - 1], *release = &c->requests[released - 1];
	struct sr_section *at;

	/* A rank that does not wait for the answer does not know that it has the lock. */
	if (take->over == SR_NO_MOMENT || take->over > release->r.post)
		return 0;
	at = sr_grow((void **)&s->all, s->n, &s->room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	*at = (struct sr_section){taken, released, take->over, release->r.post, (uint32_t)take->rank, lock, 0};
	s->n++;
	return 0;
}

int sr_section_add_annotated(struct sr_sections *s, const struct sr_annotated_lock *l, uint32_t lock)
{
	struct sr_section *at = sr_grow((void **)&s->all, s->n, &s->room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = (struct sr_section){0, 0, l->begin, l->end, l->rank, lock, l->thread};
	s->n++;
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct sr_section *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

int sr_sections_sort(struct sr_sections *s, size_t ranks)
{
	size_t at = 0;

	s->first = calloc(ranks + 2, sizeof(*s->first));
	if (!s->first)
		return -ENOMEM;
	if (s->n)
		qsort(s->all, s->n, sizeof(*s->all), by_begin);
	for (size_t r = 0; r <= ranks; r++) {
		while (at < s->n && s->all[at].rank < r)
			at++;
		s->first[r] = at;
	}
	s->first[ranks + 1] = s->n;
	return 0;
}

void sr_sections_free(struct sr_sections *s)
{
	free(s->all);
	free(s->first);
	free(s->is_attempt);
}

/* -------------------------------------------------------------- other orders */

static bool is_attempt(const void *argument, uint32_t from, uint32_t to)
{
	const struct sr_sections *s = argument;

	(void)from;
	return s->is_attempt[to];
}

struct pass {
	struct sr_collect *c;
	struct sr_sections *s;
	struct sr_race_clocks *clocks;
	struct sr_keymap ends;  /* of a moment: the section that ends there */
	struct sr_keymap known; /* orders of sections */
	size_t added;
};

/* The last section of this lock that another rank has begun before the moment of the pass; NULL: none. */
static const struct sr_section *last_begun(const struct pass *p, const struct sr_section *s, uint32_t rank, enum sr_surety surety)
{
	const struct sr_section *all = p->s->all;
	const size_t first = p->s->first[rank];
	size_t low = first, high = p->s->first[rank + 1];

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (sr_race_is_before(p->clocks, all[middle].begin, surety))
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i-- > first;)
		if (all[i].lock == s->lock)
			return &all[i];
	return NULL;
}

/* Something in `s` must come after the beginning of `before`: so all of it does, after its end. */
static int follow(struct pass *p, const struct sr_section *before, const struct sr_section *s, enum sr_surety surety)
{
	const uint64_t key = (uint64_t)(before - p->s->all) << 32 | (uint64_t)(s - p->s->all), back = key << 32 | key >> 32;
	const struct sr_collect *c = p->c;
	uint64_t is;

	/* Of what is known less surely only that is added which is not known already. */
	if ((sr_keymap_get(&p->known, key, &is) && is <= surety) || sr_keymap_get(&p->known, back, &is))
		return 0;
	sr_model_order(c->m, before->released ? c->requests[before->released - 1].r.landing : before->end,
		       s->taken ? c->requests[s->taken - 1].r.effect : s->begin, surety, false);
	p->added++;
	return sr_keymap_put(&p->known, key, surety);
}

static int take_moment(struct pass *p, uint32_t moment)
{
	const struct sr_section *s, *before;
	uint64_t at;
	int err = 0;

	if (!sr_keymap_get(&p->ends, moment, &at))
		return 0;
	s = &p->s->all[at];
	for (uint32_t r = 0; r < p->c->how->links->ranks_n; r++)
		for (enum sr_surety surety = SR_SURE; surety <= SR_DOUBTFUL && r != s->rank && !err; surety++)
			if ((before = last_begun(p, s, r, surety)))
				err = follow(p, before, s, surety);
	return err;
}

/* 0 or -ENOMEM. */
static int run_pass(struct pass *p)
{
	uint32_t moment;
	int err = 0;

	p->added = 0;
	p->clocks = sr_race_clocks_new(p->c->m);
	if (!p->clocks)
		return -ENOMEM;
	while (!err && (moment = sr_race_clocks_next(p->clocks)) != SR_NO_MOMENT)
		err = take_moment(p, moment);
	if (!err)
		err = sr_race_clocks_error(p->clocks);
	sr_race_clocks_free(p->clocks);
	return err;
}

int sr_sections_reorder(struct sr_collect *c, struct sr_sections *s)
{
	struct pass p = {.c = c, .s = s, .added = 1};
	int err = 0;

	/* Another rank may have the lock first: what an attempt read there orders nothing. */
	sr_model_cut_reads(c->m, is_attempt, s);
	for (size_t i = 0; i < s->n && !err; i++)
		err = sr_keymap_put(&p.ends, s->all[i].end, i);
	for (int i = 0; i < PASSES_MOST && p.added && !err; i++)
		err = run_pass(&p);
	sr_keymap_free(&p.ends);
	sr_keymap_free(&p.known);
	return err || !c->m->is_full ? err : -ENOMEM;
}
