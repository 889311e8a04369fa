/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * violations.c: cycles in what a run has shown: the programs' order, what was read from which write, and which write had not come yet
 * where something older was found.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/conflicts.h"
#include "replay/analysis/races/consistency.h"

#define WORD 8
/* Of an access so many words are looked at. */
#define WORDS_MOST 64
/* So many cycles are searched in a knot of accesses. */
#define SEARCHED_MOST 64

#define NONE UINT32_MAX

struct edge {
	uint32_t from, to; /* places in the program order */
	uint8_t order;     /* enum sr_cycle_order */
};

struct graph {
	const struct sr_race_run *run;
	struct sr_program_order order;
	struct edge *edges;
	size_t edges_n, edges_room;
	uint32_t *first; /* of a place's edges, once they are sorted */
	uint32_t *knot;  /* of a place: accesses of one knot come before each other */
	struct sr_keymap requests; /* accesses by the number of their request: those to the other rank's memory */
	bool is_full;
};

static const struct sr_access *at(const struct graph *g, uint32_t place)
{
	return &g->run->model.accesses[g->order.at[place]];
}

static void put_edge(struct graph *g, uint32_t from, uint32_t to, enum sr_cycle_order order)
{
	struct edge *e;

	if (from == NONE || to == NONE || from == to)
		return;
	e = sr_grow((void **)&g->edges, g->edges_n, &g->edges_room, sizeof(*e));
	if (!e) {
		g->is_full = true;
		return;
	}
	*e = (struct edge){from, to, (uint8_t)order};
	g->edges_n++;
}

static void put(struct graph *g, struct sr_keymap *m, uint64_t key, uint64_t value)
{
	if (sr_keymap_put(m, key, value))
		g->is_full = true;
}

static uint64_t key_of_word(uint32_t owner, uint64_t word)
{
	return sr_keymap_of_rank(word, owner);
}

/* ------------------------------------------------------------------ its edges */

static void add_program(struct graph *g)
{
	for (uint32_t i = 1; i < g->order.n; i++)
		if (sr_is_same_thread(at(g, i - 1), at(g, i)))
			put_edge(g, i - 1, i, SR_CYCLE_PROGRAM);
}

static bool is_overlap(const struct sr_access *a, const struct sr_access *b)
{
	return a->owner == b->owner && a->begin < b->end && b->begin < a->end;
}

/* Does b, of the same thread and later, come after a in every run? */
static bool stays_behind(const struct sr_access *a, const struct sr_access *b)
{
	return b->from == b->until && a->from == a->until && !sr_cures_of(a, b);
}

/* By place: the thread's next WRITE from the same address on, that comes after it in every run. */
static uint32_t *find_next_writes(struct graph *g)
{
	uint32_t *next = malloc((g->order.n + 1) * sizeof(*next));
	struct sr_keymap last = {0};
	uint64_t found;

	for (uint32_t i = (uint32_t)g->order.n; next && i-- > 0;) {
		const struct sr_access *a = at(g, i);
		const uint64_t key = sr_keymap_of_rank(a->begin, a->owner);

		next[i] = NONE;
		if (a->kind != SR_ACCESS_WRITE && a->kind != SR_ACCESS_ATOMIC)
			continue;
		if (sr_keymap_get(&last, key, &found) && sr_is_same_thread(a, at(g, (uint32_t)found)) &&
		    stays_behind(a, at(g, (uint32_t)found)))
			next[i] = (uint32_t)found;
		if (a->kind == SR_ACCESS_WRITE)
			put(g, &last, key, i);
	}
	sr_keymap_free(&last);
	return next;
}

/* The bytes are known to be from this write: what wrote there after it had not come. */
static void add_read_from(struct graph *g, uint32_t write, uint32_t read, const uint32_t *next)
{
	put_edge(g, write, read, SR_CYCLE_READ_FROM);
	if (next[write] != NONE && is_overlap(at(g, next[write]), at(g, read)))
		put_edge(g, read, next[write], SR_CYCLE_FROM_READ);
}

static bool may_read(const struct sr_access *a)
{
	return a->kind == SR_ACCESS_LOAD || a->kind == SR_ACCESS_READ || a->kind == SR_ACCESS_ATOMIC;
}

/* By moment, what has landed there; NULL: no memory. */
static uint32_t *find_landed(const struct graph *g)
{
	const struct sr_race_model *m = &g->run->model;
	uint32_t *landed = malloc((m->moments_n + 1) * sizeof(*landed));

	if (landed)
		memset(landed, 0xff, (m->moments_n + 1) * sizeof(*landed));
	for (uint32_t i = 0; landed && i < g->order.n; i++)
		if (at(g, i)->request && sr_access_is_write(at(g, i)) && at(g, i)->until != SR_NO_MOMENT)
			landed[at(g, i)->until] = i;
	return landed;
}

/* The model has an order for each value that is known to be of one request. */
static void add_values(struct graph *g, const uint32_t *next)
{
	const struct sr_race_model *m = &g->run->model;
	uint32_t *landed = find_landed(g), *first = malloc((m->moments_n + 1) * sizeof(*first));

	g->is_full |= !landed || !first;
	if (first)
		memset(first, 0xff, (m->moments_n + 1) * sizeof(*first));
	for (size_t i = m->accesses_n; i-- > 0 && !g->is_full;)
		if (m->accesses[i].from != SR_NO_MOMENT)
			first[m->accesses[i].from] = (uint32_t)i;
	for (uint32_t moment = 0; moment < m->moments_n && !g->is_full; moment++)
		for (uint32_t k = landed[moment] == NONE ? SR_NO_MOMENT : m->moments[moment].orders; k != SR_NO_MOMENT; k = m->orders[k].next) {
			const struct sr_moment_order *o = &m->orders[k];

			if (o->surety != SR_SURE || !o->is_read)
				continue;
			for (uint32_t i = first[o->to]; i < m->accesses_n && m->accesses[i].from == o->to; i++)
				if (g->order.place[i] != NONE && may_read(&m->accesses[i]) && is_overlap(at(g, landed[moment]), &m->accesses[i]))
					add_read_from(g, landed[moment], g->order.place[i], next);
		}
	free(landed);
	free(first);
}

static uint32_t place_of_request(const struct graph *g, uint64_t request)
{
	uint64_t found;

	return sr_keymap_get(&g->requests, request, &found) ? (uint32_t)found : NONE;
}

static void note_loads(struct graph *g, struct sr_keymap *loads, const struct sr_access *a, uint32_t place)
{
	for (uint64_t w = a->begin / WORD; w <= (a->end - 1) / WORD && w < a->begin / WORD + WORDS_MOST; w++)
		put(g, loads, key_of_word(a->owner, w), place);
}

static int by_moment(const void *x, const void *y)
{
	const struct sr_race_finding *a = x, *b = y;

	return (a->moment > b->moment) - (a->moment < b->moment);
}

/* A CPU finds that bytes have changed: the load of them before that came before the write. */
static void add_changes(struct graph *g, struct sr_race_finding *found, size_t n)
{
	const struct sr_race_model *m = &g->run->model;
	struct sr_keymap loads = {0}, seen = {0};
	uint64_t before, is;
	size_t next = 0;

	if (n)
		qsort(found, n, sizeof(*found), by_moment);
	for (size_t i = 0; i <= m->accesses_n && !g->is_full; i++) {
		const struct sr_access *a = i < m->accesses_n ? &m->accesses[i] : NULL;

		for (; next < n && (!a || found[next].moment <= a->from); next++) {
			const struct sr_race_finding *f = &found[next];
			const uint32_t write = place_of_request(g, f->writer);

			/* Seen a second time, it was there before. */
			if (!f->writer || write == NONE || (sr_keymap_get(&seen, f->writer, &is) && is != f->moment))
				continue;
			put(g, &seen, f->writer, f->moment);
			if (sr_keymap_get(&loads, key_of_word(f->owner, f->begin / WORD), &before) &&
			    at(g, (uint32_t)before)->begin <= f->begin && f->begin < at(g, (uint32_t)before)->end)
				put_edge(g, (uint32_t)before, write, SR_CYCLE_FROM_READ);
		}
		if (a && a->kind == SR_ACCESS_LOAD && g->order.place[i] != NONE)
			note_loads(g, &loads, a, g->order.place[i]);
	}
	sr_keymap_free(&loads);
	sr_keymap_free(&seen);
}

/* What a READ found is from none of the WRITEs there: it came before all. */
static void add_initial(struct graph *g, const struct sr_race_finding *found, size_t n)
{
	struct sr_keymap words = {0}; /* that such READs are of: the last one */
	uint64_t read;

	for (size_t i = 0; i < n; i++)
		if (!found[i].writer && place_of_request(g, found[i].reader) != NONE)
			put(g, &words, key_of_word(found[i].owner, found[i].begin / WORD), i);
	for (uint32_t i = 0; i < g->order.n && words.used; i++) {
		const struct sr_access *a = at(g, i);

		if (a->kind != SR_ACCESS_WRITE)
			continue;
		for (uint64_t w = a->begin / WORD; w <= (a->end - 1) / WORD && w < a->begin / WORD + WORDS_MOST; w++)
			if (sr_keymap_get(&words, key_of_word(a->owner, w), &read) && a->begin <= found[read].begin && found[read].end <= a->end)
				put_edge(g, place_of_request(g, found[read].reader), i, SR_CYCLE_FROM_READ);
	}
	sr_keymap_free(&words);
}

/* -------------------------------------------------------------------- cycles */

static int by_from(const void *x, const void *y)
{
	const struct edge *a = x, *b = y;

	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return (a->to > b->to) - (a->to < b->to);
}

static bool sort_edges(struct graph *g)
{
	g->first = calloc(g->order.n + 2, sizeof(*g->first));
	if (!g->first)
		return false;
	if (g->edges_n)
		qsort(g->edges, g->edges_n, sizeof(*g->edges), by_from);
	for (size_t i = 0; i < g->edges_n; i++)
		g->first[g->edges[i].from + 1]++;
	for (size_t i = 0; i < g->order.n; i++)
		g->first[i + 1] += g->first[i];
	return true;
}

/* Tarjan's strongly connected components, with a stack of its own. */
struct knots {
	uint32_t *index, *low, *stack, *path, *edge;
	uint32_t n, stack_n, path_n;
};

static void enter(struct knots *t, const struct graph *g, uint32_t v)
{
	t->index[v] = t->low[v] = ++t->n;
	t->stack[t->stack_n++] = v;
	t->path[t->path_n++] = v;
	t->edge[v] = g->first[v];
}

static void leave(struct knots *t, struct graph *g, uint32_t v)
{
	uint32_t w;

	t->path_n--;
	if (t->path_n && t->low[t->path[t->path_n - 1]] > t->low[v])
		t->low[t->path[t->path_n - 1]] = t->low[v];
	if (t->low[v] != t->index[v])
		return;
	do {
		w = t->stack[--t->stack_n];
		g->knot[w] = v;
	} while (w != v);
}

static void walk(struct knots *t, struct graph *g, uint32_t start)
{
	enter(t, g, start);
	while (t->path_n) {
		const uint32_t v = t->path[t->path_n - 1];

		if (t->edge[v] == g->first[v + 1]) {
			leave(t, g, v);
			continue;
		}
		uint32_t w = g->edges[t->edge[v]++].to;

		if (!t->index[w])
			enter(t, g, w);
		else if (g->knot[w] == NONE && t->low[v] > t->index[w])
			t->low[v] = t->index[w];
	}
}

static bool find_knots(struct graph *g)
{
	const size_t n = g->order.n + 1;
	struct knots t = {calloc(n, 4), calloc(n, 4), malloc(n * 4), malloc(n * 4), malloc(n * 4)};
	bool fine = t.index && t.low && t.stack && t.path && t.edge;

	g->knot = malloc(n * sizeof(*g->knot));
	fine &= g->knot != NULL;
	if (fine)
		memset(g->knot, 0xff, n * sizeof(*g->knot));
	for (uint32_t v = 0; fine && v < g->order.n; v++)
		if (!t.index[v])
			walk(&t, g, v);
	free(t.index);
	free(t.low);
	free(t.stack);
	free(t.path);
	free(t.edge);
	return fine;
}

/* A shortest way back from the end of an edge, within its knot: edges by which each place was reached. */
struct way {
	uint32_t *by, *todo;
	bool *is_told; /* by place: it is in a cycle that was found */
};

static bool find_way(const struct graph *g, struct way *w, const struct edge *e)
{
	size_t done = 0, n = 0;

	memset(w->by, 0xff, (g->order.n + 1) * sizeof(*w->by));
	w->todo[n++] = e->to;
	while (done < n) {
		const uint32_t v = w->todo[done++];

		for (uint32_t k = g->first[v]; k < g->first[v + 1]; k++) {
			const uint32_t to = g->edges[k].to;

			if (g->knot[to] != g->knot[v] || w->by[to] != NONE || to == e->to)
				continue;
			w->by[to] = k;
			if (to == e->from)
				return true;
			w->todo[n++] = to;
		}
	}
	return false;
}

/* Steps of one program that follow each other are one.  False: it is too long. */
static bool make_cycle(const struct graph *g, struct way *w, const struct edge *e, struct sr_cycle *c)
{
	uint32_t places[SR_CYCLE_MOST + 1], n = 0;
	uint8_t orders[SR_CYCLE_MOST + 1];

	/* Backwards, from the edge's beginning to its end. */
	for (uint32_t v = e->from; v != e->to; v = g->edges[w->by[v]].from) {
		const uint8_t order = g->edges[w->by[v]].order;

		w->is_told[v] = true;
		if (n && order == SR_CYCLE_PROGRAM && orders[n - 1] == SR_CYCLE_PROGRAM)
			continue;
		if (n == SR_CYCLE_MOST)
			return false;
		places[n] = v; /* `order` leads to it */
		orders[n++] = order;
	}
	if (!n || n == SR_CYCLE_MOST)
		return false;
	*c = (struct sr_cycle){.n = n + 1, .is_observed = true};
	w->is_told[e->to] = true;
	c->at[0] = *at(g, e->to);
	for (uint32_t i = 0; i < n; i++) {
		c->order[i] = orders[n - 1 - i];
		c->at[i + 1] = *at(g, places[n - 1 - i]);
	}
	c->order[n] = e->order;
	for (uint32_t i = 0; i < c->n; i++)
		c->cures[i] = c->order[i] == SR_CYCLE_PROGRAM ? sr_cures_of(&c->at[i], &c->at[(i + 1) % c->n]) : 0;
	return true;
}

static int take_cycles(struct graph *g, struct sr_consistency *s, sr_access_origin origin, void *argument)
{
	struct way w = {malloc((g->order.n + 1) * sizeof(*w.by)), malloc((g->order.n + 1) * sizeof(*w.todo)), calloc(g->order.n + 1, 1)};
	uint32_t searched = 0;
	int ret = w.by && w.todo && w.is_told ? 0 : -ENOMEM;

	for (size_t i = 0; i < g->edges_n && !ret && searched < SEARCHED_MOST; i++) {
		const struct edge *e = &g->edges[i];
		struct sr_cycle c;

		/* Each cycle has an order that is no program's. */
		if (e->order == SR_CYCLE_PROGRAM || g->knot[e->from] != g->knot[e->to] || (w.is_told[e->from] && w.is_told[e->to]))
			continue;
		searched++;
		if (find_way(g, &w, e) && make_cycle(g, &w, e, &c))
			ret = sr_consistency_add(s, &c, origin, argument);
	}
	free(w.by);
	free(w.todo);
	free(w.is_told);
	return ret;
}

int sr_consistency_observed(struct sr_consistency *s, const struct sr_race_run *run, sr_access_origin origin, void *argument)
{
	struct graph g = {.run = run};
	uint32_t *next = NULL;
	int ret = -ENOMEM;

	if (sr_program_order_make(&g.order, &run->model)) {
		for (uint32_t i = 0; i < g.order.n; i++)
			if (at(&g, i)->request)
				put(&g, &g.requests, at(&g, i)->request, i);
		add_program(&g);
		next = find_next_writes(&g);
	}
	if (next) {
		add_values(&g, next);
		add_changes(&g, run->findings, run->findings_n);
		add_initial(&g, run->findings, run->findings_n);
		if (!g.is_full && sort_edges(&g) && find_knots(&g))
			ret = take_cycles(&g, s, origin, argument);
	}
	sr_keymap_free(&g.requests);
	sr_program_order_free(&g.order);
	free(next);
	free(g.edges);
	free(g.first);
	free(g.knot);
	return ret;
}
