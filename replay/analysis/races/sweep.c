/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/clocks.h"
#include "replay/analysis/races/conflicts.h"
#include "replay/analysis/races/queues.h"

/* So many equal values are looked at before one that may be another race. */
#define EQUAL_MOST 16

/* Memory in pieces, each with the accesses to it. */
#define PIECE 512

/*
 * Accesses of one agent and origin to the same bytes, in the order of the pass.  If one of them is a race with another
 * access, those before it in the row would be the same race, with no better evidence.
 */
struct row {
	uint64_t origin;
	uint32_t *at; /* accesses */
	size_t n, room;
};

struct piece {
	struct row *rows;
	size_t n, room;
};

struct state {
	const struct sr_race_model *m;
	struct sr_sweep *s;
	struct sr_race_clocks *clocks;
	struct sr_keymap places; /* of a piece, in pieces */
	struct sr_keymap released; /* of a key that ends while the pass goes on, as a piece: the accesses by it */
	struct piece *pieces;
	size_t pieces_n, pieces_room;
	size_t next; /* access */
	uint32_t *of_moment; /* by moment: its first access */
};

/* ------------------------------------------------------------ is it ordered */

/* `a` came first in the pass. */
static bool is_ordered(const struct state *t, const struct sr_access *a, const struct sr_access *b, enum sr_surety s)
{
	if (sr_race_is_before(t->clocks, a->until, s) || sr_race_is_before(t->clocks, a->over, s))
		return true;
	if (a->queue == SR_NO_QUEUE || a->queue != b->queue)
		return false;
	return a->place < b->place ? sr_race_is_queue_ordered(a, b) : sr_race_is_queue_ordered(b, a);
}

/* Had the connection ended when the memory was released?  Both happened at calls of the owner. */
static bool is_closed(const struct sr_access *a, const struct sr_access *release)
{
	return release->kind == SR_ACCESS_RELEASE && a->closed < release->from;
}

/* Do its agent's accesses of this kind happen one after the other? */
static bool is_in_order(const struct sr_access *a)
{
	switch (a->kind) {
	case SR_ACCESS_LOAD:
	case SR_ACCESS_STORE:
	case SR_ACCESS_RELEASE:
		return true;
	case SR_ACCESS_WRITE:
	case SR_ACCESS_READ:
		return a->queue != SR_NO_QUEUE;
	default:
		return false;
	}
}

/* Has it, and all that the row has before it, ended before? */
static bool ends_row(const struct state *t, const struct sr_access *a)
{
	if (sr_race_is_before(t->clocks, a->over, SR_SURE))
		return true;
	return a->from == a->until && is_in_order(a) && sr_race_is_before(t->clocks, a->until, SR_SURE);
}

/* *is_race: it is one. */
static int compare(struct state *t, const struct sr_access *a, const struct sr_access *b, bool *is_race)
{
	enum sr_surety unordered = SR_SURE;

	t->s->pairs++;
	*is_race = false;
	if (!sr_accesses_conflict(a, b) || is_closed(a, b) || is_closed(b, a) || sr_model_excludes(t->m, a, b) ||
	    is_ordered(t, a, b, SR_SURE))
		return 0;
	if (!is_ordered(t, a, b, SR_DOUBTFUL))
		unordered = is_ordered(t, a, b, SR_SEEN) ? SR_DOUBTFUL : SR_SEEN;
	*is_race = true;
	return t->s->found(t->s->argument, a, b, unordered,
			   (sr_race_is_before(t->clocks, a->gathered, SR_SURE) ? SR_DOUBT_SENT : 0) |
				   (sr_race_clocks_is_broken(t->clocks) ? SR_DOUBT_LOOP : 0));
}

/* ----------------------------------------------------------------- pieces */

/* A number among an owner's, as a key. */
static uint64_t key_of(uint32_t owner, uint64_t number)
{
	return number * 0x10001 + owner + 1;
}

static struct piece *piece_of(struct state *t, struct sr_keymap *places, uint64_t key)
{
	struct piece *p;
	uint64_t at;

	if (sr_keymap_get(places, key, &at))
		return &t->pieces[at];
	p = sr_grow((void **)&t->pieces, t->pieces_n, &t->pieces_room, sizeof(*p));
	if (!p || sr_keymap_put(places, key, t->pieces_n))
		return NULL;
	*p = (struct piece){0};
	t->pieces_n++;
	return p;
}

static uint64_t origin_of(const struct state *t, const struct sr_access *a)
{
	return t->s->origin ? t->s->origin(t->s->argument, a) : a->site ^ a->pc;
}

static bool has_same_locks(const struct sr_race_model *m, const struct sr_access *a, const struct sr_access *b)
{
	return a->held == b->held || (a->held && b->held && m->held[a->held] == m->held[b->held] &&
				      !memcmp(&m->held[a->held], &m->held[b->held], (m->held[a->held] + 1) * sizeof(*m->held)));
}

static bool is_row_of(const struct state *t, const struct row *r, const struct sr_access *a, uint64_t origin)
{
	const struct sr_access *last = &t->m->accesses[r->at[r->n - 1]];

	return r->origin == origin && last->agent == a->agent && last->kind == a->kind && last->begin == a->begin &&
	       last->end == a->end && last->doubts == a->doubts && has_same_locks(t->m, last, a);
}

static int add(const struct state *t, struct piece *p, uint32_t access, const struct sr_access *a, uint64_t origin)
{
	struct row *r;
	uint32_t *at;
	size_t i = p->n;

	/* The newest rows are the likeliest ones. */
	while (i && !is_row_of(t, &p->rows[i - 1], a, origin))
		i--;
	i = i ? i - 1 : p->n;
	if (i == p->n) {
		size_t room = p->room ? 2 * p->room : 2;
		struct row *more = i < p->room ? p->rows : realloc(p->rows, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		p->room = i < p->room ? p->room : room;
		p->rows = more;
		p->rows[p->n++] = (struct row){.origin = origin};
	}
	r = &p->rows[i];
	if (r->n == r->room) {
		at = realloc(r->at, (r->room ? 2 * r->room : 4) * sizeof(*at));
		if (!at)
			return -ENOMEM;
		r->at = at;
		r->room = r->room ? 2 * r->room : 4;
	}
	r->at[r->n++] = access;
	return 0;
}

/* Two that meet in several pieces are compared in the first one. */
static bool is_first(const struct sr_access *a, const struct sr_access *b, uint64_t number)
{
	uint64_t first = a->begin > b->begin ? a->begin : b->begin;

	return first / PIECE == number;
}

static int tell_ordered(struct state *t, const struct sr_access *a, const struct sr_access *b)
{
	if (!t->s->ordered || a->rank == b->rank || !sr_accesses_conflict(a, b) || is_closed(a, b) || is_closed(b, a) ||
	    sr_model_excludes(t->m, a, b) || !is_ordered(t, a, b, SR_SURE))
		return 0;
	return t->s->ordered(t->s->argument, a, b);
}

static int compare_row(struct state *t, const struct row *r, const struct sr_access *b)
{
	unsigned int equal = 0;
	bool is_race = false;
	int ret = tell_ordered(t, &t->m->accesses[r->at[r->n - 1]], b);

	for (size_t k = r->n; k-- > 0 && !ret && !is_race && equal < EQUAL_MOST;) {
		const struct sr_access *a = &t->m->accesses[r->at[k]];

		if (ends_row(t, a))
			break;
		ret = compare(t, a, b, &is_race);
		/* Where equal values race, those before may differ. */
		if (is_race && a->checksum && a->checksum == b->checksum) {
			is_race = false;
			equal++;
		}
	}
	return ret;
}

/* What the accesses of a row have in common: do they meet in these bytes, and can they conflict? */
static bool may_meet(const struct state *t, const struct row *r, const struct sr_access *b, uint64_t number)
{
	const struct sr_access *a = &t->m->accesses[r->at[r->n - 1]];

	/* The atomics of a word that all ranks use are many, and none of them races with another. */
	if (a->kind == SR_ACCESS_ATOMIC && b->kind == SR_ACCESS_ATOMIC && a->begin == b->begin)
		return false;
	return a->begin < b->end && b->begin < a->end && (sr_access_is_write(a) || sr_access_is_write(b)) &&
	       is_first(a, b, number);
}

static int compare_all(struct state *t, const struct piece *p, const struct sr_access *b, uint64_t number)
{
	int ret = 0;

	for (size_t i = 0; i < p->n && !ret; i++)
		if (may_meet(t, &p->rows[i], b, number))
			ret = compare_row(t, &p->rows[i], b);
	return ret;
}

/* The end of a registration and what is accessed by its key. */
static int take_key(struct state *t, uint32_t access, uint64_t origin)
{
	const struct sr_access *b = &t->m->accesses[access];
	const bool is_release = b->kind == SR_ACCESS_RELEASE;
	struct piece *p;
	uint64_t at;
	int ret = 0;

	if (!b->key || !sr_keymap_get(&t->released, key_of(b->owner, b->key), &at))
		return 0;
	p = &t->pieces[at];
	for (size_t i = 0; i < p->n && !ret; i++)
		if (is_release != (t->m->accesses[p->rows[i].at[0]].kind == SR_ACCESS_RELEASE))
			ret = compare_row(t, &p->rows[i], b);
	return ret ? ret : add(t, p, access, b, origin);
}

static int take(struct state *t, uint32_t access)
{
	const struct sr_access *b = &t->m->accesses[access];
	const uint64_t origin = origin_of(t, b);
	int ret = take_key(t, access, origin);

	if (b->kind == SR_ACCESS_RELEASE)
		return ret;
	for (uint64_t n = b->begin / PIECE; b->begin < b->end && n <= (b->end - 1) / PIECE && !ret; n++) {
		struct piece *p = piece_of(t, &t->places, key_of(b->owner, n));

		if (!p)
			return -ENOMEM;
		ret = compare_all(t, p, b, n);
		if (!ret)
			ret = add(t, p, access, b, origin);
	}
	return ret;
}

/* -------------------------------------------------------------------- all */

static bool index_releases(struct state *t)
{
	for (size_t i = 0; i < t->m->accesses_n; i++) {
		const struct sr_access *a = &t->m->accesses[i];

		if (a->kind == SR_ACCESS_RELEASE && !piece_of(t, &t->released, key_of(a->owner, a->key)))
			return false;
	}
	return true;
}

static bool index_accesses(struct state *t)
{
	t->of_moment = malloc((t->m->moments_n + 1) * sizeof(*t->of_moment));
	if (!t->of_moment)
		return false;
	for (size_t i = 0; i < t->m->moments_n; i++)
		t->of_moment[i] = SR_NO_MOMENT;
	for (size_t i = t->m->accesses_n; i-- > 0;)
		if (t->m->accesses[i].from != SR_NO_MOMENT)
			t->of_moment[t->m->accesses[i].from] = (uint32_t)i;
	return true;
}

static int go(struct state *t)
{
	uint32_t moment;
	int ret = 0;

	while (!ret && (moment = sr_race_clocks_next(t->clocks)) != SR_NO_MOMENT)
		for (uint32_t i = t->of_moment[moment];
		     i < t->m->accesses_n && t->m->accesses[i].from == moment && !ret; i++)
			ret = take(t, i);
	t->s->dropped = sr_race_clocks_dropped(t->clocks);
	return ret ? ret : sr_race_clocks_error(t->clocks);
}

int sr_sweep(const struct sr_race_model *m, struct sr_sweep *s)
{
	struct state t = {.m = m, .s = s, .clocks = sr_race_clocks_new(m)};
	int ret = t.clocks && index_accesses(&t) && index_releases(&t) ? go(&t) : -ENOMEM;

	for (size_t i = 0; i < t.pieces_n; i++) {
		for (size_t k = 0; k < t.pieces[i].n; k++)
			free(t.pieces[i].rows[k].at);
		free(t.pieces[i].rows);
	}
	free(t.pieces);
	free(t.of_moment);
	sr_keymap_free(&t.places);
	sr_keymap_free(&t.released);
	sr_race_clocks_free(t.clocks);
	return ret;
}
