/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/sweep.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/clocks.h"
#include "replay/analysis/races/conflicts.h"
#include "replay/analysis/races/found.h"
#include "replay/analysis/races/queues.h"

/* So many equal values are looked at before one that may be another race. */
#define EQUAL_MOST 16

#define NONE UINT32_MAX

/* Memory in pieces, each with the accesses to it; those within one word are kept by the word. */
#define PIECE 512
#define WORD  8
#define WORDS (PIECE / WORD)

/*
 * Accesses of one agent and origin to the same bytes, in the order of the pass.  If one of them is a race with another
 * access, those before it in the row would be the same race, with no better evidence: the last few are enough.  What they
 * have in common is kept here, so that most are told apart without a look at the accesses.
 */
struct row {
	uint64_t origin, begin, end; /* begin and end: by a key, those of the first one */
	uint32_t next;  /* of its list; NONE: it is the last one */
	uint32_t older; /* a ring of EQUAL_MOST; NONE: there is none but the last one */
	uint32_t agent, held;
	uint32_t last, n; /* last: an access; n: how many there were */
	uint32_t until, over; /* of the last one: with either of these, all of the row has ended; SR_NO_MOMENT: not by that */
	uint16_t doubts;
	uint8_t kind;
	bool is_write;
};

/* Rows, in the order in which they were added. */
struct list {
	uint32_t first, last; /* NONE: it is empty */
};

#define EMPTY ((struct list){NONE, NONE})

struct ring {
	uint32_t at[EQUAL_MOST];
};

struct piece {
	struct list wide;   /* that go beyond a word */
	struct list *words; /* WORDS lists; NULL: all are empty */
	uint64_t used;      /* a bit for each word whose list is not empty */
};

/* By a key that ends while the pass goes on: the accesses by it, in rows whatever their addresses, and its ends. */
struct keyed {
	struct list accesses, releases;
};

/* What all threads share. */
struct shared {
	const struct sr_race_model *m;
	struct sr_sweep *s;
	uint32_t *of_moment; /* by moment: its first access */
	unsigned int threads;
};

/* A thread's pass. */
struct state {
	const struct shared *shared;
	const struct sr_race_model *m;
	struct sr_sweep *s;
	unsigned int number; /* of the thread: all memory whose number is this one, modulo `threads`, is its own */
	pthread_t thread;
	int ret;
	uint64_t pairs, place; /* place: of the access in the pass */
	struct sr_found_pairs found;
	struct sr_race_clocks *clocks;
	struct sr_keymap places; /* of a piece, in pieces */
	struct sr_keymap released; /* of a key that ends, in keyed */
	/* In few large arrays, as most of them are far from the one before. */
	struct row *rows;
	size_t rows_n, rows_room;
	struct ring *rings;
	size_t rings_n, rings_room;
	struct piece *pieces;
	size_t pieces_n, pieces_room;
	struct keyed *keyed;
	size_t keyed_n, keyed_room;
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

/* At which moment has it, and all that the row has before it, ended? */
static uint32_t end_of_row(const struct sr_access *a)
{
	return a->from == a->until && is_in_order(a) ? a->until : SR_NO_MOMENT;
}

static bool has_ended(const struct state *t, uint32_t until, uint32_t over)
{
	return sr_race_is_before(t->clocks, over, SR_SURE) || sr_race_is_before(t->clocks, until, SR_SURE);
}

/* One thread tells at once what it has found, of several each keeps it. */
static int tell(struct state *t, const struct sr_access *a, const struct sr_access *b, uint64_t piece, enum sr_surety unordered, uint16_t doubts)
{
	if (t->shared->threads == 1)
		return t->s->found(t->s->argument, a, b, unordered, doubts);
	return sr_found_keep(&t->found, (struct sr_found_pair){.place = t->place,
							       .piece = piece,
							       .a = (uint32_t)(a - t->m->accesses),
							       .b = (uint32_t)(b - t->m->accesses),
							       .doubts = doubts,
							       .unordered = (uint8_t)unordered});
}

/* *is_race: it is one. */
static int compare(struct state *t, const struct sr_access *a, const struct sr_access *b, uint64_t piece, bool *is_race)
{
	enum sr_surety unordered = SR_SURE;

	t->pairs++;
	*is_race = false;
	if (!sr_accesses_conflict(a, b) || is_closed(a, b) || is_closed(b, a) || sr_model_excludes(t->m, a, b) ||
	    is_ordered(t, a, b, SR_SURE))
		return 0;
	if (!is_ordered(t, a, b, SR_DOUBTFUL))
		unordered = is_ordered(t, a, b, SR_SEEN) ? SR_DOUBTFUL : SR_SEEN;
	*is_race = true;
	return tell(t, a, b, piece, unordered,
		    (sr_race_is_before(t->clocks, a->gathered, SR_SURE) ? SR_DOUBT_SENT : 0) |
			    (sr_race_clocks_is_broken(t->clocks) ? SR_DOUBT_LOOP : 0));
}

/* ----------------------------------------------------------------- pieces */

/* A number among an owner's, as a key. */
static uint64_t key_of(uint32_t owner, uint64_t number)
{
	return sr_keymap_of_rank(number, owner) + 1;
}

static struct piece *piece_of(struct state *t, uint64_t key)
{
	struct piece *p;
	uint64_t at;

	if (sr_keymap_get(&t->places, key, &at))
		return &t->pieces[at];
	p = sr_grow((void **)&t->pieces, t->pieces_n, &t->pieces_room, sizeof(*p));
	if (!p || sr_keymap_put(&t->places, key, t->pieces_n))
		return NULL;
	*p = (struct piece){.wide = EMPTY};
	t->pieces_n++;
	return p;
}

static uint64_t origin_of(const struct state *t, const struct sr_access *a)
{
	return t->s->origin ? t->s->origin(t->s->argument, a) : a->site ^ a->pc;
}

static bool are_same_locks(const struct sr_race_model *m, uint32_t a, uint32_t b)
{
	return a == b || (a && b && m->held[a] == m->held[b] && !memcmp(&m->held[a], &m->held[b], (m->held[a] + 1) * sizeof(*m->held)));
}

static bool is_row_of(const struct state *t, const struct row *r, const struct sr_access *a, uint64_t origin, bool by_key)
{
	return r->origin == origin && r->agent == a->agent && r->kind == a->kind && (by_key || (r->begin == a->begin && r->end == a->end)) &&
	       r->doubts == a->doubts && are_same_locks(t->m, r->held, a->held);
}

static int add_row(struct state *t, struct list *p, uint32_t access, const struct sr_access *a, uint64_t origin)
{
	struct row *r = sr_grow((void **)&t->rows, t->rows_n, &t->rows_room, sizeof(*r));

	if (!r || t->rows_n == NONE)
		return -ENOMEM;
	*r = (struct row){.origin = origin,
			  .begin = a->begin,
			  .end = a->end,
			  .next = NONE,
			  .older = NONE,
			  .agent = a->agent,
			  .held = a->held,
			  .last = access,
			  .n = 1,
			  .until = end_of_row(a),
			  .over = a->over,
			  .doubts = a->doubts,
			  .kind = a->kind,
			  .is_write = sr_access_is_write(a)};
	if (p->last == NONE)
		p->first = (uint32_t)t->rows_n;
	else
		t->rows[p->last].next = (uint32_t)t->rows_n;
	p->last = (uint32_t)t->rows_n++;
	return 0;
}

/* The last one of the row becomes an older one.  0 or -ENOMEM. */
static int keep_older(struct state *t, struct row *r)
{
	struct ring *ring;

	if (r->older == NONE) {
		ring = sr_grow((void **)&t->rings, t->rings_n, &t->rings_room, sizeof(*ring));
		if (!ring || t->rings_n == NONE)
			return -ENOMEM;
		r->older = (uint32_t)t->rings_n++;
	}
	t->rings[r->older].at[(r->n - 1) % EQUAL_MOST] = r->last;
	return 0;
}

static int add(struct state *t, struct list *p, uint32_t access, const struct sr_access *a, uint64_t origin, bool by_key)
{
	struct row *r;
	uint32_t i = p->first;

	while (i != NONE && !is_row_of(t, &t->rows[i], a, origin, by_key))
		i = t->rows[i].next;
	if (i == NONE)
		return add_row(t, p, access, a, origin);
	r = &t->rows[i];
	if (keep_older(t, r))
		return -ENOMEM;
	r->last = access;
	r->until = end_of_row(a);
	r->over = a->over;
	r->n++;
	return 0;
}

/* The k-th access from the row's end. */
static uint32_t from_end(const struct state *t, const struct row *r, uint32_t k)
{
	return k ? t->rings[r->older].at[(r->n - 1 - k) % EQUAL_MOST] : r->last;
}

/* Two that meet in several pieces are compared in the first one. */
static bool is_first(uint64_t a, uint64_t b, uint64_t number)
{
	return (a > b ? a : b) / PIECE == number;
}

static int tell_ordered(struct state *t, const struct sr_access *a, const struct sr_access *b)
{
	if (!t->s->ordered || a->rank == b->rank || !sr_accesses_conflict(a, b) || is_closed(a, b) || is_closed(b, a) ||
	    sr_model_excludes(t->m, a, b) || !is_ordered(t, a, b, SR_SURE))
		return 0;
	return t->s->ordered(t->s->argument, a, b);
}

static int compare_row(struct state *t, const struct row *r, const struct sr_access *b, uint64_t piece)
{
	bool is_race = false;
	int ret = tell_ordered(t, &t->m->accesses[r->last], b);

	if (has_ended(t, r->until, r->over))
		return ret;
	for (uint32_t k = 0; k < r->n && k <= EQUAL_MOST && !ret && !is_race; k++) {
		const struct sr_access *a = &t->m->accesses[from_end(t, r, k)];

		if (k && has_ended(t, end_of_row(a), a->over))
			break;
		ret = compare(t, a, b, piece, &is_race);
		/* Where equal values race, those before may differ. */
		is_race &= !(a->checksum && a->checksum == b->checksum);
	}
	return ret;
}

/* What the accesses of a row have in common: do they meet in these bytes, and can they conflict? */
static bool may_meet(const struct row *r, const struct sr_access *b, bool is_write, uint64_t number)
{
	/* The atomics of a word that all ranks use are many, and none of them races with another. */
	if (r->kind == SR_ACCESS_ATOMIC && b->kind == SR_ACCESS_ATOMIC && r->begin == b->begin)
		return false;
	/* One after the other, or another tool's business. */
	if (r->agent == b->agent && b->agent & SR_AGENT_CPU)
		return false;
	return r->begin < b->end && b->begin < r->end && (r->is_write || is_write) && is_first(r->begin, b->begin, number);
}

static int compare_list(struct state *t, const struct list *p, const struct sr_access *b, uint64_t number)
{
	const bool is_write = sr_access_is_write(b);
	int ret = 0;

	for (uint32_t i = p->first; i != NONE && !ret; i = t->rows[i].next)
		if (may_meet(&t->rows[i], b, is_write, number))
			ret = compare_row(t, &t->rows[i], b, number + 1);
	return ret;
}

static bool is_small(const struct sr_access *a)
{
	return a->begin / WORD == (a->end - 1) / WORD;
}

static size_t word_of(uint64_t address)
{
	return address / WORD % WORDS;
}

static int compare_all(struct state *t, const struct piece *p, const struct sr_access *b, uint64_t number)
{
	const uint64_t begin = number * PIECE, end = begin + PIECE;
	const size_t first = b->begin > begin ? word_of(b->begin) : 0, last = b->end < end ? word_of(b->end - 1) : WORDS - 1;
	uint64_t used = p->used & UINT64_MAX << first & UINT64_MAX >> (WORDS - 1 - last);
	int ret = compare_list(t, &p->wide, b, number);

	for (; used && !ret; used &= used - 1)
		ret = compare_list(t, &p->words[__builtin_ctzll(used)], b, number);
	return ret;
}

/* Where in a piece the access is kept; NULL: no memory. */
static struct list *list_for(struct piece *p, const struct sr_access *a)
{
	if (!is_small(a))
		return &p->wide;
	if (!p->words) {
		p->words = malloc(WORDS * sizeof(*p->words));
		if (!p->words)
			return NULL;
		for (size_t i = 0; i < WORDS; i++)
			p->words[i] = EMPTY;
	}
	p->used |= UINT64_C(1) << word_of(a->begin);
	return &p->words[word_of(a->begin)];
}

/* Has another thread the memory, or the keys, of this number? */
static bool is_others(const struct state *t, uint32_t owner, uint64_t number)
{
	return t->shared->threads > 1 && (number + owner) % t->shared->threads != t->number;
}

/* The end of a registration and what is accessed by its key. */
static int take_key(struct state *t, uint32_t access, uint64_t origin)
{
	const struct sr_access *b = &t->m->accesses[access];
	const bool is_release = b->kind == SR_ACCESS_RELEASE;
	const struct list *others;
	struct keyed *k;
	uint64_t at;
	int ret = 0;

	if (!b->key || is_others(t, b->owner, b->key) || !sr_keymap_get(&t->released, key_of(b->owner, b->key), &at))
		return 0;
	k = &t->keyed[at];
	others = is_release ? &k->accesses : &k->releases;
	for (uint32_t i = others->first; i != NONE && !ret; i = t->rows[i].next)
		ret = compare_row(t, &t->rows[i], b, 0);
	return ret ? ret : add(t, is_release ? &k->releases : &k->accesses, access, b, origin, true);
}

/* An access in one piece of the memory. */
static int take_piece(struct state *t, uint32_t access, uint64_t number, uint64_t origin)
{
	const struct sr_access *b = &t->m->accesses[access];
	struct piece *p = piece_of(t, key_of(b->owner, number));
	struct list *list = p ? list_for(p, b) : NULL;
	int ret = list ? compare_all(t, p, b, number) : -ENOMEM;

	return ret ? ret : add(t, list, access, b, origin, false);
}

static int take(struct state *t, uint32_t access)
{
	const struct sr_access *b = &t->m->accesses[access];
	const uint64_t first = b->begin / PIECE;
	uint64_t origin;
	int ret;

	t->place++;
	/* Most are in one piece. */
	if (!b->key && b->begin < b->end && (b->end - 1) / PIECE == first && is_others(t, b->owner, first))
		return 0;
	origin = origin_of(t, b);
	ret = take_key(t, access, origin);
	if (b->kind == SR_ACCESS_RELEASE)
		return ret;
	for (uint64_t n = first; b->begin < b->end && n <= (b->end - 1) / PIECE && !ret; n++)
		if (!is_others(t, b->owner, n))
			ret = take_piece(t, access, n, origin);
	return ret;
}

/* -------------------------------------------------------------------- all */

static bool index_releases(struct state *t)
{
	uint64_t at;

	for (size_t i = 0; i < t->m->accesses_n; i++) {
		const struct sr_access *a = &t->m->accesses[i];
		struct keyed *k;

		if (a->kind != SR_ACCESS_RELEASE || sr_keymap_get(&t->released, key_of(a->owner, a->key), &at))
			continue;
		k = sr_grow((void **)&t->keyed, t->keyed_n, &t->keyed_room, sizeof(*k));
		if (!k || sr_keymap_put(&t->released, key_of(a->owner, a->key), t->keyed_n))
			return false;
		*k = (struct keyed){EMPTY, EMPTY};
		t->keyed_n++;
	}
	return true;
}

static bool index_accesses(struct shared *s)
{
	const struct sr_race_model *m = s->m;

	s->of_moment = sr_large(malloc((m->moments_n + 1) * sizeof(*s->of_moment)), m->moments_n * sizeof(*s->of_moment));
	if (!s->of_moment)
		return false;
	for (size_t i = 0; i < m->moments_n; i++)
		s->of_moment[i] = SR_NO_MOMENT;
	for (size_t i = m->accesses_n; i-- > 0;)
		if (m->accesses[i].from != SR_NO_MOMENT)
			s->of_moment[m->accesses[i].from] = (uint32_t)i;
	return true;
}

static int go(struct state *t)
{
	uint32_t moment;
	int ret = 0;

	t->clocks = sr_race_clocks_new(t->m);
	if (!t->clocks || !index_releases(t))
		return -ENOMEM;
	while (!ret && (moment = sr_race_clocks_next(t->clocks)) != SR_NO_MOMENT)
		for (uint32_t i = t->shared->of_moment[moment];
		     i < t->m->accesses_n && t->m->accesses[i].from == moment && !ret; i++)
			ret = take(t, i);
	return ret ? ret : sr_race_clocks_error(t->clocks);
}

/* All but what was found. */
static void free_state(struct state *t)
{
	for (size_t i = 0; i < t->pieces_n; i++)
		free(t->pieces[i].words);
	free(t->rows);
	free(t->rings);
	free(t->keyed);
	free(t->pieces);
	sr_keymap_free(&t->places);
	sr_keymap_free(&t->released);
	sr_race_clocks_free(t->clocks);
	t->clocks = NULL;
}

static void *run(void *argument)
{
	struct state *t = argument;

	t->ret = go(t);
	if (t->clocks && !t->number)
		t->s->dropped = sr_race_clocks_dropped(t->clocks);
	free_state(t);
	return NULL;
}

static int tell_all(const struct shared *s, struct sr_found_pairs *found)
{
	const struct sr_access *all = s->m->accesses;
	const struct sr_found_pair *f;
	int ret = 0;

	while (!ret && (f = sr_found_next(found, s->threads)))
		ret = s->s->found(s->s->argument, &all[f->a], &all[f->b], f->unordered, f->doubts);
	return ret;
}

/* The caller is the first thread.  What no thread can be made for, it does itself. */
static int run_all(const struct shared *s)
{
	struct state *all = calloc(s->threads, sizeof(*all));
	struct sr_found_pairs *found = calloc(s->threads, sizeof(*found));
	bool has_thread[SR_SWEEP_THREADS_MOST] = {false};
	int ret = all && found ? 0 : -ENOMEM;

	for (unsigned int i = s->threads; i-- > 0 && !ret;) {
		all[i] = (struct state){.shared = s, .m = s->m, .s = s->s, .number = i};
		has_thread[i] = i && !pthread_create(&all[i].thread, NULL, run, &all[i]);
		if (!has_thread[i])
			run(&all[i]);
	}
	for (unsigned int i = 0; i < s->threads && all && found; i++) {
		if (has_thread[i])
			pthread_join(all[i].thread, NULL);
		ret = ret ? ret : all[i].ret;
		s->s->pairs += all[i].pairs;
		found[i] = all[i].found;
	}
	if (!ret)
		ret = tell_all(s, found);
	for (unsigned int i = 0; i < s->threads && found; i++)
		free(found[i].all);
	free(found);
	free(all);
	return ret;
}

int sr_sweep(const struct sr_race_model *m, struct sr_sweep *s)
{
	struct shared shared = {.m = m, .s = s, .threads = s->threads && !s->ordered ? s->threads : 1};
	int ret;

	if (shared.threads > SR_SWEEP_THREADS_MOST)
		shared.threads = SR_SWEEP_THREADS_MOST;
	ret = index_accesses(&shared) ? run_all(&shared) : -ENOMEM;
	free(shared.of_moment);
	return ret;
}
