/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/clocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/races/ready.h"

/* Numbers that are compared at once. */
#define LANES 8

/* So many moments in front of another one are kept apart; the others are joined as they come. */
#define APART_MOST 32

/* Of a clock that is no moment's: nothing tells that another one has all of it. */
#define NO_NUMBER UINT32_MAX

/* By surety, then chain.  Once its moment has passed it is shared, and does not change any more. */
struct clock {
	struct clock *next; /* of those that are not used */
	uint32_t chains, shares;
	uint32_t chain, number; /* where its moment is */
	uint32_t at[];
};

/* A moment has passed that comes before one that has not. */
struct known {
	struct known *next;
	struct clock *clock;
	enum sr_surety surety;
	bool is_read;
};

/* What all of a choice's moments have behind them that the pass has come to. */
struct choice {
	struct choice *next;
	uint32_t number, come;
	struct clock *all;
};

/* A moment that the pass has not come to.  Few have anything in front of them that it has come to. */
struct place {
	uint32_t waits, sure_waits;
	uint32_t arriving; /* 0: nothing */
};

/* What is in front of such a moment. */
struct arriving {
	struct known *known; /* the last one first */
	struct choice *choices;
	uint32_t known_n;
	uint32_t next; /* of those that are not used */
};

struct chain {
	uint32_t last;
	uint32_t next; /* chain of the same lane */
};

struct sr_race_clocks {
	const struct sr_race_model *m;
	uint64_t *stamps; /* by moment: its number in its chain << 32, and the chain; 0: the pass has not come there */
	struct place *places; /* by moment */
	struct arriving *arriving; /* the first one is none */
	size_t arriving_n, arriving_room;
	uint32_t spare_arriving;
	struct clock *spare;  /* clocks of `width` chains: each moment needs one, for a short time */
	uint32_t width;       /* a multiple of LANES */
	struct known *spare_known;
	struct chain *chains;
	size_t chains_n, chains_room;
	uint32_t *first_chain; /* by lane */
	struct sr_ready ready;
	size_t done, first_open;
	uint64_t dropped;
	bool is_broken, is_forced; /* is_forced: a moment has passed before some that it was to follow */
	struct sr_race_past now;
	int error;
};

struct sr_race_clocks *sr_race_clocks_new(const struct sr_race_model *m)
{
	struct sr_race_clocks *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->m = m;
	c->stamps = sr_large_zeroed(m->moments_n + 1, sizeof(*c->stamps));
	c->places = sr_large_zeroed(m->moments_n + 1, sizeof(*c->places));
	c->ready.at = sr_large_make(m->moments_n + 1, sizeof(*c->ready.at));
	c->first_chain = malloc((m->lanes_n + 1) * sizeof(*c->first_chain));
	c->arriving_n = 1;
	if (!c->stamps || !c->places || !c->ready.at || !c->first_chain || !sr_grow((void **)&c->arriving, 0, &c->arriving_room, sizeof(*c->arriving))) {
		c->arriving_n = 0;
		sr_race_clocks_free(c);
		return NULL;
	}
	c->arriving[0] = (struct arriving){0};
	memset(c->first_chain, 0xff, (m->lanes_n + 1) * sizeof(*c->first_chain));
	for (size_t i = 0; i < m->moments_n; i++) {
		c->places[i].waits = m->moments[i].waits;
		c->places[i].sure_waits = m->moments[i].sure_waits;
		if (!m->moments[i].waits)
			sr_ready_push(&c->ready, (uint32_t)i);
	}
	return c;
}

static void free_choices(struct arriving *a)
{
	struct choice *next;

	for (struct choice *h = a->choices; h; h = next) {
		next = h->next;
		free(h->all);
		free(h);
	}
	a->choices = NULL;
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

static void drop_clock(struct sr_race_clocks *c, struct clock *k);
static void forget_known(struct sr_race_clocks *c, struct arriving *a);

static void free_all(struct sr_race_clocks *c)
{
	struct known *next;

	for (size_t i = 0; i < c->arriving_n; i++) {
		forget_known(c, &c->arriving[i]);
		free_choices(&c->arriving[i]);
	}
	for (struct known *k = c->spare_known; k; k = next) {
		next = k->next;
		free(k);
	}
}

void sr_race_clocks_free(struct sr_race_clocks *c)
{
	if (!c)
		return;
	if (c->arriving)
		free_all(c);
	drop_clock(c, c->now.clock);
	free_spare(c);
	free(c->arriving);
	sr_large_free(c->stamps, c->m->moments_n + 1, sizeof(*c->stamps));
	sr_large_free(c->places, c->m->moments_n + 1, sizeof(*c->places));
	sr_large_free(c->ready.at, c->m->moments_n + 1, sizeof(*c->ready.at));
	free(c->first_chain);
	free(c->chains);
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

/* All that are left wait for each other: the first one that waits only for what is not sure goes on, else the first one. */
static uint32_t force(struct sr_race_clocks *c)
{
	size_t i;

	while (c->stamps[c->first_open])
		c->first_open++;
	for (i = c->first_open; i < c->m->moments_n; i++)
		if (!c->stamps[i] && !c->places[i].sure_waits)
			break;
	if (i == c->m->moments_n) {
		i = c->first_open;
		c->is_broken = true;
	}
	c->dropped += c->places[i].waits;
	c->is_forced = true;
	return (uint32_t)i;
}

/* ----------------------------------------------------------------- clocks */

/* With room for all chains that there are; what is in it is not set. */
static struct clock *make_clock(struct sr_race_clocks *c)
{
	struct clock *k = c->spare;

	if (c->width < c->chains_n || !c->width) {
		free_spare(c);
		c->width = (uint32_t)(c->chains_n / LANES + 1) * LANES;
		k = NULL;
	}
	if (k)
		c->spare = k->next;
	else
		k = malloc(sizeof(*k) + (size_t)SR_SURETIES * c->width * sizeof(k->at[0]));
	if (!k) {
		c->error = -ENOMEM;
		return NULL;
	}
	k->chains = c->width;
	k->shares = 1;
	k->number = NO_NUMBER;
	return k;
}

static struct clock *share(struct clock *k)
{
	if (k)
		k->shares++;
	return k;
}

static void drop_clock(struct sr_race_clocks *c, struct clock *k)
{
	if (!k || --k->shares)
		return;
	if (k->chains != c->width) {
		free(k);
		return;
	}
	k->next = c->spare;
	c->spare = k;
}

/* Gives a share back for a clock that may be changed, with room for all chains that there are.  NULL: no memory. */
static struct clock *own(struct sr_race_clocks *c, struct clock *k)
{
	struct clock *copy;

	if (k && k->shares == 1 && k->chains >= c->chains_n)
		return k;
	copy = make_clock(c);
	for (size_t s = 0; copy && s < SR_SURETIES; s++) {
		const uint32_t n = k ? k->chains : 0;

		if (n)
			memcpy(copy->at + s * copy->chains, k->at + s * n, n * sizeof(k->at[0]));
		memset(copy->at + s * copy->chains + n, 0, (copy->chains - n) * sizeof(k->at[0]));
	}
	drop_clock(c, k);
	return copy;
}

/* The higher ones of n numbers, a multiple of LANES.  (Compilers make a few instructions of the inner loop.) */
static void raise_all(uint32_t *restrict at, const uint32_t *restrict add, size_t n)
{
	for (const uint32_t *end = at + n; at != end; at += LANES, add += LANES)
		for (size_t i = 0; i < LANES; i++)
			at[i] = add[i] > at[i] ? add[i] : at[i];
}

/* Joins what is at least as unsure as `surety`. */
static struct clock *join(struct sr_race_clocks *c, struct clock *to, const struct clock *from, enum sr_surety surety)
{
	to = own(c, to);
	for (size_t s = surety; to && s < SR_SURETIES; s++)
		raise_all(to->at + s * to->chains, from->at + s * from->chains, from->chains < to->chains ? from->chains : to->chains);
	return to;
}

/* ------------------------------------------------------------- what is known */

/* Who knows a moment knows all that comes before it; but for orders that were dropped. */
static bool has_all(const struct sr_race_clocks *c, const struct clock *k, const struct clock *of, enum sr_surety surety)
{
	return !c->is_forced && of->number != NO_NUMBER && of->chain < k->chains && k->at[surety * k->chains + of->chain] >= of->number;
}

static void forget_known(struct sr_race_clocks *c, struct arriving *a)
{
	struct known *next;

	for (struct known *k = a->known; k; k = next) {
		next = k->next;
		drop_clock(c, k->clock);
		k->next = c->spare_known;
		c->spare_known = k;
	}
	a->known = NULL;
}

/* What is in front of this place, which may be nothing yet.  It stays until another one is asked for.  NULL: no memory. */
static struct arriving *arriving_at(struct sr_race_clocks *c, struct place *p)
{
	struct arriving *a;

	if (p->arriving)
		return &c->arriving[p->arriving];
	p->arriving = c->spare_arriving;
	if (p->arriving) {
		a = &c->arriving[p->arriving];
		c->spare_arriving = a->next;
	} else {
		a = sr_grow((void **)&c->arriving, c->arriving_n, &c->arriving_room, sizeof(*a));
		if (!a) {
			c->error = -ENOMEM;
			return NULL;
		}
		p->arriving = (uint32_t)c->arriving_n++;
	}
	*a = (struct arriving){0};
	return a;
}

static void forget_arriving(struct sr_race_clocks *c, struct place *p)
{
	struct arriving *a = &c->arriving[p->arriving];

	if (!p->arriving)
		return;
	forget_known(c, a);
	free_choices(a);
	a->next = c->spare_arriving;
	c->spare_arriving = p->arriving;
	p->arriving = 0;
}

/* Another one that has passed in front of this place. */
static void know(struct sr_race_clocks *c, struct arriving *a, struct clock *clock, const struct sr_moment_order *o)
{
	struct known *k = a->known;

	if (k && a->known_n >= APART_MOST && k->surety == o->surety && k->is_read == o->is_read) {
		k->clock = join(c, k->clock, clock, SR_SURE);
		if (k->clock)
			k->clock->number = NO_NUMBER;
		return;
	}
	k = c->spare_known;
	if (k)
		c->spare_known = k->next;
	else
		k = malloc(sizeof(*k));
	if (!k) {
		c->error = -ENOMEM;
		return;
	}
	*k = (struct known){.next = a->known, .clock = share(clock), .surety = o->surety, .is_read = o->is_read};
	a->known = k;
	a->known_n++;
}

/* Joins what the moment read, or what else comes before it.  The last one has most, as a rule. */
static struct clock *join_known(struct sr_race_clocks *c, struct clock *to, const struct arriving *a, bool is_read)
{
	for (struct known *k = a->known; k && !c->error; k = k->next) {
		if (k->is_read != is_read || (to && has_all(c, to, k->clock, k->surety)))
			continue;
		if (!to && k->surety == SR_SURE) {
			to = k->clock;
			k->clock = NULL;
		} else {
			to = join(c, to, k->clock, k->surety);
		}
	}
	return to;
}

static bool has_read(const struct arriving *a)
{
	for (const struct known *k = a->known; k; k = k->next)
		if (k->is_read)
			return true;
	return false;
}

static struct choice *choice_of(struct sr_race_clocks *c, struct arriving *a, uint32_t number)
{
	struct choice *h = a->choices;

	while (h && h->number != number)
		h = h->next;
	if (h)
		return h;
	h = calloc(1, sizeof(*h));
	if (!h) {
		c->error = -ENOMEM;
		return NULL;
	}
	*h = (struct choice){.next = a->choices, .number = number};
	a->choices = h;
	return h;
}

/* One more moment of a choice: what it does not surely follow, the choice does not. */
static void meet(struct sr_race_clocks *c, struct arriving *to, uint32_t number, const struct clock *k)
{
	struct choice *h = choice_of(c, to, number);

	if (!h)
		return;
	if (!h->come++) {
		h->all = join(c, NULL, k, SR_SURE);
		return;
	}
	for (uint32_t i = 0; i < h->all->chains; i++)
		if (i >= k->chains)
			h->all->at[i] = 0;
		else if (h->all->at[i] > k->at[i])
			h->all->at[i] = k->at[i];
}

/* What the moment surely follows, whichever of its choices are right. */
static struct clock *join_choices(struct sr_race_clocks *c, struct arriving *a, struct clock *whole)
{
	whole = own(c, whole);
	for (const struct choice *h = a->choices; h && whole; h = h->next)
		if (h->all && h->come == c->m->choices[h->number - 1])
			for (uint32_t i = 0; i < h->all->chains && i < whole->chains; i++)
				if (h->all->at[i] > whole->at[i])
					whole->at[i] = h->all->at[i];
	free_choices(a);
	return whole;
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

/* Hands on what the moment knows, with itself. */
static void hand_on(struct sr_race_clocks *c, uint32_t moment, struct clock *k)
{
	const struct sr_moment_order *o;

	for (uint32_t i = c->m->moments[moment].orders; i != SR_NO_MOMENT && !c->error; i = o->next) {
		struct arriving *a;
		struct place *to;

		o = &c->m->orders[i];
		to = &c->places[o->to];
		if (c->stamps[o->to])
			continue; /* it was forced */
		a = arriving_at(c, to);
		if (!a)
			return;
		if (o->choice)
			meet(c, a, o->choice, k);
		know(c, a, k, o);
		to->sure_waits -= o->surety == SR_SURE;
		if (!--to->waits)
			sr_ready_push(&c->ready, o->to);
	}
}

/* What comes before the moment, with itself. */
static struct clock *clock_of(struct sr_race_clocks *c, uint32_t moment, uint32_t *chain)
{
	struct arriving *a = &c->arriving[c->places[moment].arriving];
	const bool has_more = a->choices || c->is_forced || has_read(a);
	struct clock *whole = join_known(c, NULL, a, false);

	/* Where there is nothing else, one clock does for both. */
	c->now.clock = has_more ? share(whole) : NULL;
	if (has_more)
		whole = join_known(c, whole, a, true);
	if (a->choices)
		whole = join_choices(c, a, whole);
	*chain = chain_for(c, c->m->moments[moment].lane, whole);
	whole = c->error ? whole : own(c, whole);
	if (!has_more)
		c->now.clock = share(whole);
	return whole;
}

static void pass(struct sr_race_clocks *c, uint32_t moment)
{
	struct clock *whole;
	uint32_t chain;

	drop_clock(c, c->now.clock);
	whole = clock_of(c, moment, &chain);
	if (!c->error) {
		const uint32_t number = ++c->chains[chain].last;

		c->now.stamp = (uint64_t)number << 32 | chain;
		/* Others may ask for it meanwhile: sr_race_was_before(). */
		__atomic_store_n(&c->stamps[moment], c->now.stamp, __ATOMIC_RELAXED);
		whole->chain = chain;
		whole->number = number;
		for (size_t s = 0; s < SR_SURETIES; s++)
			whole->at[s * whole->chains + chain] = number;
		hand_on(c, moment, whole);
	}
	drop_clock(c, whole);
	forget_arriving(c, &c->places[moment]);
}

uint32_t sr_race_clocks_next(struct sr_race_clocks *c)
{
	uint32_t moment;

	if (c->error || c->done == c->m->moments_n)
		return SR_NO_MOMENT;
	moment = c->ready.n ? sr_ready_pop(&c->ready) : force(c);
	if (moment == SR_NO_MOMENT)
		return SR_NO_MOMENT;
	c->now.is_broken = c->is_broken;
	c->done++;
	pass(c, moment);
	return c->error ? SR_NO_MOMENT : moment;
}

struct sr_race_past sr_race_clocks_keep(struct sr_race_clocks *c)
{
	share(c->now.clock);
	return c->now;
}

void sr_race_clocks_drop(struct sr_race_clocks *c, struct sr_race_past *p)
{
	drop_clock(c, p->clock);
	p->clock = NULL;
}

size_t sr_race_past_size(const struct sr_race_past *p)
{
	return p->clock ? SR_SURETIES * p->clock->chains * sizeof(p->clock->at[0]) : 0;
}

uint64_t sr_race_clocks_stamp(const struct sr_race_clocks *c, uint32_t moment)
{
	return __atomic_load_n(&c->stamps[moment], __ATOMIC_RELAXED);
}

bool sr_race_has_stamp(const struct sr_race_past *p, uint64_t stamp, enum sr_surety surety)
{
	const uint32_t chain = (uint32_t)stamp, number = (uint32_t)(stamp >> 32);
	const struct clock *now = p->clock;

	return number && stamp != p->stamp && now && chain < now->chains && now->at[surety * now->chains + chain] >= number;
}

bool sr_race_was_before(const struct sr_race_clocks *c, const struct sr_race_past *p, uint32_t before, enum sr_surety surety)
{
	return before != SR_NO_MOMENT && sr_race_has_stamp(p, sr_race_clocks_stamp(c, before), surety);
}

bool sr_race_is_before(const struct sr_race_clocks *c, uint32_t before, enum sr_surety surety)
{
	return sr_race_was_before(c, &c->now, before, surety);
}
