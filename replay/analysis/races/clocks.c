/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/clocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"

/* By surety, then chain. */
struct clock {
	struct clock *next; /* of those that are not used */
	uint32_t chains;
	uint32_t at[];
};

/* What all of a choice's moments have behind them that the pass has come to. */
struct choice {
	struct choice *next;
	uint32_t number, come;
	struct clock *all;
};

/* Where a moment is in its chain: what is asked for most. */
struct stamp {
	uint32_t chain, number; /* number 0: the pass has not come there */
};

struct place {
	uint32_t waits, sure_waits;
	struct clock *before, *read; /* joins of what comes before; read: by what the moment read */
	struct choice *choices;
};

struct chain {
	uint32_t last;
	uint32_t next; /* chain of the same lane */
};

struct sr_race_clocks {
	const struct sr_race_model *m;
	struct stamp *stamps; /* by moment */
	struct place *places; /* by moment */
	struct clock *spare;  /* clocks of `width` chains: each moment needs one, for a short time */
	uint32_t width;
	struct chain *chains;
	size_t chains_n, chains_room;
	uint32_t *first_chain; /* by lane */
	uint32_t *ready;       /* a heap: lowest number on top */
	size_t ready_n, done, first_open;
	uint64_t dropped;
	bool is_broken;
	struct clock *now; /* of the moment that the pass is at, without what it read */
	uint32_t at;
	int error;
};

struct sr_race_clocks *sr_race_clocks_new(const struct sr_race_model *m)
{
	struct sr_race_clocks *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->m = m;
	c->at = SR_NO_MOMENT;
	c->stamps = calloc(m->moments_n + 1, sizeof(*c->stamps));
	c->places = calloc(m->moments_n + 1, sizeof(*c->places));
	c->ready = malloc((m->moments_n + 1) * sizeof(*c->ready));
	c->first_chain = malloc((m->lanes_n + 1) * sizeof(*c->first_chain));
	if (!c->stamps || !c->places || !c->ready || !c->first_chain) {
		sr_race_clocks_free(c);
		return NULL;
	}
	memset(c->first_chain, 0xff, (m->lanes_n + 1) * sizeof(*c->first_chain));
	for (size_t i = 0; i < m->moments_n; i++) {
		c->places[i].waits = m->moments[i].waits;
		c->places[i].sure_waits = m->moments[i].sure_waits;
		if (!m->moments[i].waits)
			c->ready[c->ready_n++] = (uint32_t)i; /* ascending: a heap */
	}
	return c;
}

static void free_choices(struct place *p)
{
	struct choice *next;

	for (struct choice *h = p->choices; h; h = next) {
		next = h->next;
		free(h->all);
		free(h);
	}
	p->choices = NULL;
}

static void free_spare(struct sr_race_clocks *c)
{
	struct clock *next;

	for (struct clock *k = c->spare; k; k = next) {
		next = k->next;
		free(k);
	}
	c->spare = NULL;
}

void sr_race_clocks_free(struct sr_race_clocks *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->places && i < c->m->moments_n; i++) {
		free(c->places[i].before);
		free(c->places[i].read);
		free_choices(&c->places[i]);
	}
	free_spare(c);
	free(c->stamps);
	free(c->places);
	free(c->ready);
	free(c->first_chain);
	free(c->chains);
	free(c->now);
	free(c);
}

int sr_race_clocks_error(const struct sr_race_clocks *c)
{
	return c->error;
}

uint64_t sr_race_clocks_dropped(const struct sr_race_clocks *c)
{
	return c->dropped;
}

bool sr_race_clocks_is_broken(const struct sr_race_clocks *c)
{
	return c->is_broken;
}

/* ------------------------------------------------------------ the next one */

static void push_ready(struct sr_race_clocks *c, uint32_t moment)
{
	size_t i = c->ready_n++;

	while (i && c->ready[(i - 1) / 2] > moment) {
		c->ready[i] = c->ready[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	c->ready[i] = moment;
}

static uint32_t pop_ready(struct sr_race_clocks *c)
{
	uint32_t top = c->ready[0], last = c->ready[--c->ready_n];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < c->ready_n) {
		if (child + 1 < c->ready_n && c->ready[child + 1] < c->ready[child])
			child++;
		if (c->ready[child] >= last)
			break;
		c->ready[i] = c->ready[child];
		i = child;
	}
	c->ready[i] = last;
	return top;
}

/* All that are left wait for each other: the first one that waits only for what is not sure goes on, else the first one. */
static uint32_t force(struct sr_race_clocks *c)
{
	size_t i;

	while (c->stamps[c->first_open].number)
		c->first_open++;
	for (i = c->first_open; i < c->m->moments_n; i++)
		if (!c->stamps[i].number && !c->places[i].sure_waits)
			break;
	if (i == c->m->moments_n) {
		i = c->first_open;
		c->is_broken = true;
	}
	c->dropped += c->places[i].waits;
	return (uint32_t)i;
}

/* ----------------------------------------------------------------- clocks */

static size_t bytes_of(const struct clock *k)
{
	return (size_t)SR_SURETIES * k->chains * sizeof(k->at[0]);
}

/* With room for all chains that there are; what is in it is not set. */
static struct clock *make_clock(struct sr_race_clocks *c)
{
	struct clock *k = c->spare;

	if (c->width < c->chains_n || !c->width) {
		free_spare(c);
		c->width = (uint32_t)c->chains_n + 8;
		k = NULL;
	}
	if (k) {
		c->spare = k->next;
		return k;
	}
	k = malloc(sizeof(*k) + (size_t)SR_SURETIES * c->width * sizeof(k->at[0]));
	if (k)
		k->chains = c->width;
	else
		c->error = -ENOMEM;
	return k;
}

static void drop_clock(struct sr_race_clocks *c, struct clock *k)
{
	if (!k)
		return;
	if (k->chains != c->width) {
		free(k);
		return;
	}
	k->next = c->spare;
	c->spare = k;
}

/* Room for all chains that there are. */
static struct clock *widen(struct sr_race_clocks *c, struct clock *k)
{
	struct clock *wide;

	if (k && k->chains >= c->chains_n)
		return k;
	wide = make_clock(c);
	if (wide)
		memset(wide->at, 0, bytes_of(wide));
	for (size_t s = 0; wide && k && s < SR_SURETIES; s++)
		memcpy(wide->at + s * wide->chains, k->at + s * k->chains, k->chains * sizeof(k->at[0]));
	drop_clock(c, k);
	return wide;
}

/* Joins what is at least as unsure as `surety`. */
static void join(struct sr_race_clocks *c, struct clock **to, const struct clock *from, enum sr_surety surety)
{
	/* What is the first to come is copied. */
	if (!*to && from && surety == SR_SURE && from->chains == c->width && from->chains >= c->chains_n) {
		*to = make_clock(c);
		if (*to)
			memcpy((*to)->at, from->at, bytes_of(from));
		return;
	}
	*to = widen(c, *to);
	if (!*to || !from)
		return;
	for (size_t s = surety; s < SR_SURETIES; s++) {
		uint32_t *restrict at = (*to)->at + s * (*to)->chains;
		const uint32_t *restrict add = from->at + s * from->chains;

		const uint32_t n = from->chains < (*to)->chains ? from->chains : (*to)->chains;

		for (uint32_t i = 0; i < n; i++)
			at[i] = add[i] > at[i] ? add[i] : at[i];
	}
}

static struct choice *choice_of(struct sr_race_clocks *c, struct place *p, uint32_t number)
{
	struct choice *h = p->choices;

	while (h && h->number != number)
		h = h->next;
	if (h)
		return h;
	h = calloc(1, sizeof(*h));
	if (!h) {
		c->error = -ENOMEM;
		return NULL;
	}
	*h = (struct choice){.next = p->choices, .number = number};
	p->choices = h;
	return h;
}

/* One more moment of a choice: what it does not surely follow, the choice does not. */
static void meet(struct sr_race_clocks *c, struct place *to, uint32_t number, const struct clock *k)
{
	struct choice *h = choice_of(c, to, number);

	if (!h)
		return;
	if (!h->come++) {
		join(c, &h->all, k, SR_SURE);
		return;
	}
	for (uint32_t i = 0; i < h->all->chains; i++)
		if (i >= k->chains)
			h->all->at[i] = 0;
		else if (h->all->at[i] > k->at[i])
			h->all->at[i] = k->at[i];
}

/* What the moment surely follows, whichever of its choices are right. */
static void join_choices(struct sr_race_clocks *c, struct place *p, struct clock *whole)
{
	for (const struct choice *h = p->choices; h && whole; h = h->next)
		if (h->all && h->come == c->m->choices[h->number - 1])
			for (uint32_t i = 0; i < h->all->chains && i < whole->chains; i++)
				if (h->all->at[i] > whole->at[i])
					whole->at[i] = h->all->at[i];
	free_choices(p);
}

/* A chain of the lane whose last moment comes before: a new one if there is none. */
static uint32_t chain_for(struct sr_race_clocks *c, uint32_t lane, const struct clock *k)
{
	struct chain *added;
	uint32_t i;

	for (i = c->first_chain[lane]; i != SR_NO_MOMENT; i = c->chains[i].next)
		if (!c->m->lanes[lane].is_loose || (k && i < k->chains && k->at[i] >= c->chains[i].last))
			return i;
	added = sr_grow((void **)&c->chains, c->chains_n, &c->chains_room, sizeof(*added));
	if (!added) {
		c->error = -ENOMEM;
		return SR_NO_MOMENT;
	}
	*added = (struct chain){.next = c->first_chain[lane]};
	c->first_chain[lane] = (uint32_t)c->chains_n;
	return (uint32_t)c->chains_n++;
}

/* Hands on what the moment knows, with itself.  The last one to get it gets the clock itself, if it has none. */
static void hand_on(struct sr_race_clocks *c, uint32_t moment, struct clock **known)
{
	struct clock *k = *known;
	const struct sr_moment_order *o;

	for (uint32_t i = c->m->moments[moment].orders; i != SR_NO_MOMENT && !c->error; i = o->next) {
		struct clock **its;
		struct place *to;

		o = &c->m->orders[i];
		to = &c->places[o->to];
		if (c->stamps[o->to].number)
			continue; /* it was forced */
		its = o->is_read ? &to->read : &to->before;
		if (o->choice)
			meet(c, to, o->choice, k);
		if (o->next == SR_NO_MOMENT && !*its && o->surety == SR_SURE) {
			*its = k;
			*known = NULL;
		} else {
			join(c, its, k, o->surety);
		}
		to->sure_waits -= o->surety == SR_SURE;
		if (!--to->waits)
			push_ready(c, o->to);
	}
}

static void pass(struct sr_race_clocks *c, uint32_t moment)
{
	struct place *p = &c->places[moment];
	struct stamp *stamp = &c->stamps[moment];
	struct clock *whole = NULL;

	drop_clock(c, c->now);
	c->now = p->before;
	p->before = NULL;
	join(c, &whole, c->now, SR_SURE);
	if (p->read)
		join(c, &whole, p->read, SR_SURE);
	drop_clock(c, p->read);
	p->read = NULL;
	if (p->choices)
		join_choices(c, p, whole);
	stamp->chain = chain_for(c, c->m->moments[moment].lane, whole);
	if (!c->error)
		whole = widen(c, whole);
	if (!c->error) {
		stamp->number = ++c->chains[stamp->chain].last;
		for (size_t s = 0; s < SR_SURETIES; s++)
			whole->at[s * whole->chains + stamp->chain] = stamp->number;
		hand_on(c, moment, &whole);
	}
	drop_clock(c, whole);
}

uint32_t sr_race_clocks_next(struct sr_race_clocks *c)
{
	if (c->error || c->done == c->m->moments_n)
		return SR_NO_MOMENT;
	c->at = c->ready_n ? pop_ready(c) : force(c);
	if (c->at == SR_NO_MOMENT)
		return SR_NO_MOMENT;
	c->done++;
	pass(c, c->at);
	return c->error ? SR_NO_MOMENT : c->at;
}

bool sr_race_is_before(const struct sr_race_clocks *c, uint32_t before, enum sr_surety surety)
{
	const struct stamp *p;

	if (before == SR_NO_MOMENT)
		return false;
	p = &c->stamps[before];
	return p->number && c->now && p->chain < c->now->chains &&
	       c->now->at[surety * c->now->chains + p->chain] >= p->number;
}
