/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/arena.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/conflicts.h"
#include "replay/analysis/races/places.h"
#include "replay/analysis/races/queues.h"

/* So many equal values are looked at before one that may be another race. */
#define EQUAL_MOST 16

#define NONE UINT32_MAX

/*
 * Accesses of one agent and origin to the same bytes, in the order of the pass.  If one of them is a race with another
 * access, those before it in the row would be the same race, with no better evidence: the last few are enough.  What they
 * have in common is kept here, so that most are told apart without a look at the accesses.
 */
struct row {
	uint64_t origin, begin, end; /* begin and end: by a key, those of the first one */
	/* Of the last one, places of moments (sr_race_clocks_stamp): with either of these, all of the row has ended; 0: not known. */
	uint64_t until, over;
	uint32_t older; /* a ring of EQUAL_MOST; NONE: there is none but the last one */
	uint32_t agent, held;
	uint32_t last, n; /* last: an access; n: how many there were */
	uint32_t serial;  /* rows of a shard are numbered as they come */
	uint16_t doubts;
	uint8_t kind;
	bool is_write;
};

/* Rows, in the order in which they were added: side by side, as all of them are looked at. */
struct list {
	struct row *rows;
	uint32_t n, room;
};

struct ring {
	uint32_t at[EQUAL_MOST];
};

/* A piece's accesses within one word. */
struct words {
	struct list *lists; /* SR_WORDS; NULL: all are empty */
	uint64_t used;      /* a bit for each word whose list is not empty */
};

/* By a key that ends while the pass goes on: the accesses by it, in rows whatever their addresses, and its ends. */
struct keyed {
	struct list accesses, releases;
};

struct sr_shard {
	const struct sr_shards *of;
	unsigned int number;
	const struct sr_race_past *past; /* of the moment that the shard is at */
	uint32_t place;                  /* of the access, among those of its batch */
	struct sr_found_pairs *found;
	uint64_t pairs;
	struct sr_places places;
	struct words *words; /* by piece */
	size_t words_n, words_room;
	struct list *ranges; /* by range: the accesses that go beyond a word */
	size_t ranges_n, ranges_room;
	struct row **met; /* rows of several ranges */
	size_t met_n, met_room;
	struct sr_keymap keys;   /* that end, in keyed */
	struct sr_arena rows; /* and lists of them */
	uint32_t serial;
	struct ring *rings;
	size_t rings_n, rings_room;
	struct keyed *keyed;
	size_t keyed_n, keyed_room;
};

/* ------------------------------------------------------------ is it ordered */

static bool was_before(const struct sr_shard *h, uint32_t moment, enum sr_surety s)
{
	return sr_race_was_before(h->of->clocks, h->past, moment, s);
}

/* `a` came first in the pass. */
static bool is_ordered(const struct sr_shard *h, const struct sr_access *a, const struct sr_access *b, enum sr_surety s)
{
	if (was_before(h, a->until, s) || was_before(h, a->over, s))
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

static uint64_t stamp_of(const struct sr_shard *h, uint32_t moment)
{
	return moment != SR_NO_MOMENT ? sr_race_clocks_stamp(h->of->clocks, moment) : 0;
}

/* Has all of the row ended?  When its last one was added the pass had not come to where that is over. */
static bool has_row_ended(struct sr_shard *h, struct row *r)
{
	if (!r->over)
		r->over = stamp_of(h, h->of->m->accesses[r->last].over);
	return sr_race_has_stamp(h->past, r->over, SR_SURE) || sr_race_has_stamp(h->past, r->until, SR_SURE);
}

/* A sweep in one thread is told at once, of several each keeps what it has found. */
static int tell(struct sr_shard *h, const struct sr_access *a, const struct sr_access *b, uint64_t piece, enum sr_surety unordered, uint16_t doubts)
{
	if (!h->found)
		return h->of->found(h->of->argument, a, b, unordered, doubts);
	return sr_found_keep(h->found, (struct sr_found_pair){.place = h->place,
							      .piece = piece,
							      .a = (uint32_t)(a - h->of->m->accesses),
							      .b = (uint32_t)(b - h->of->m->accesses),
							      .doubts = doubts,
							      .unordered = (uint8_t)unordered});
}

/* *is_race: it is one. */
static int compare(struct sr_shard *h, const struct sr_access *a, const struct sr_access *b, uint64_t piece, bool *is_race)
{
	enum sr_surety unordered = SR_SURE;

	h->pairs++;
	*is_race = false;
	if (!sr_accesses_conflict(a, b) || is_closed(a, b) || is_closed(b, a) || sr_model_excludes(h->of->m, a, b) ||
	    is_ordered(h, a, b, SR_SURE))
		return 0;
	if (!is_ordered(h, a, b, SR_DOUBTFUL))
		unordered = is_ordered(h, a, b, SR_SEEN) ? SR_DOUBTFUL : SR_SEEN;
	*is_race = true;
	return tell(h, a, b, piece, unordered,
		    (was_before(h, a->gathered, SR_SURE) ? SR_DOUBT_SENT : 0) | (h->past->is_broken ? SR_DOUBT_LOOP : 0));
}

/* ------------------------------------------------------------------- rows */

/* A number among an owner's, as a key. */
static uint64_t key_of(uint32_t owner, uint64_t number)
{
	return sr_keymap_of_rank(number, owner) + 1;
}

static uint64_t origin_of(const struct sr_shard *h, const struct sr_access *a)
{
	return h->of->origin ? h->of->origin(h->of->argument, a) : a->site ^ a->pc;
}

static bool are_same_locks(const struct sr_race_model *m, uint32_t a, uint32_t b)
{
	return a == b || (a && b && m->held[a] == m->held[b] && !memcmp(&m->held[a], &m->held[b], (m->held[a] + 1) * sizeof(*m->held)));
}

static bool is_row_of(const struct sr_shard *h, const struct row *r, const struct sr_access *a, uint64_t origin, bool by_key)
{
	return r->origin == origin && r->agent == a->agent && r->kind == a->kind && (by_key || (r->begin == a->begin && r->end == a->end)) &&
	       r->doubts == a->doubts && are_same_locks(h->of->m, r->held, a->held);
}

static int add_row(struct sr_shard *h, struct list *p, uint32_t access, const struct sr_access *a, uint64_t origin)
{
	if (p->n == p->room) {
		const uint32_t room = p->room ? 2 * p->room : 1; /* many have no more */
		struct row *more = sr_arena_get(&h->rows, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		if (p->n)
			memcpy(more, p->rows, p->n * sizeof(*more));
		sr_arena_put(&h->rows, p->rows, p->room * sizeof(*more));
		p->rows = more;
		p->room = room;
	}
	p->rows[p->n++] = (struct row){.origin = origin,
			  .begin = a->begin,
			  .end = a->end,
			  .older = NONE,
			  .agent = a->agent,
			  .held = a->held,
			  .last = access,
			  .n = 1,
			  .serial = h->serial++,
			  .until = stamp_of(h, end_of_row(a)),
			  .doubts = a->doubts,
			  .kind = a->kind,
			  .is_write = sr_access_is_write(a)};
	return 0;
}

/* The last one of the row becomes an older one.  0 or -ENOMEM. */
static int keep_older(struct sr_shard *h, struct row *r)
{
	struct ring *ring;

	if (r->older == NONE) {
		ring = sr_grow((void **)&h->rings, h->rings_n, &h->rings_room, sizeof(*ring));
		if (!ring || h->rings_n == NONE)
			return -ENOMEM;
		r->older = (uint32_t)h->rings_n++;
	}
	h->rings[r->older].at[(r->n - 1) % EQUAL_MOST] = r->last;
	return 0;
}

static int add(struct sr_shard *h, struct list *p, uint32_t access, const struct sr_access *a, uint64_t origin, bool by_key)
{
	struct row *r;
	uint32_t i = 0;

	while (i < p->n && !is_row_of(h, &p->rows[i], a, origin, by_key))
		i++;
	if (i == p->n)
		return add_row(h, p, access, a, origin);
	r = &p->rows[i];
	if (keep_older(h, r))
		return -ENOMEM;
	r->last = access;
	r->until = stamp_of(h, end_of_row(a));
	r->over = 0;
	r->n++;
	return 0;
}

/* The k-th access from the row's end. */
static uint32_t from_end(const struct sr_shard *h, const struct row *r, uint32_t k)
{
	return k ? h->rings[r->older].at[(r->n - 1 - k) % EQUAL_MOST] : r->last;
}

/* Two that meet in several pieces are compared in the first one. */
static bool is_first(uint64_t a, uint64_t b, uint64_t number)
{
	return (a > b ? a : b) / SR_PIECE == number;
}

static int tell_ordered(struct sr_shard *h, const struct sr_access *a, const struct sr_access *b)
{
	if (!h->of->ordered || a->rank == b->rank || !sr_accesses_conflict(a, b) || is_closed(a, b) || is_closed(b, a) ||
	    sr_model_excludes(h->of->m, a, b) || !is_ordered(h, a, b, SR_SURE))
		return 0;
	return h->of->ordered(h->of->argument, a, b);
}

static int compare_row(struct sr_shard *h, struct row *r, const struct sr_access *b, uint64_t piece)
{
	bool is_race = false;
	int ret = tell_ordered(h, &h->of->m->accesses[r->last], b);

	if (has_row_ended(h, r))
		return ret;
	for (uint32_t k = 0; k < r->n && k <= EQUAL_MOST && !ret && !is_race; k++) {
		const struct sr_access *a = &h->of->m->accesses[from_end(h, r, k)];

		if (k && (was_before(h, a->over, SR_SURE) || was_before(h, end_of_row(a), SR_SURE)))
			break;
		ret = compare(h, a, b, piece, &is_race);
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

static int compare_list(struct sr_shard *h, const struct list *p, const struct sr_access *b, uint64_t number)
{
	const bool is_write = sr_access_is_write(b);
	int ret = 0;

	for (uint32_t i = 0; i < p->n && !ret; i++)
		if (may_meet(&p->rows[i], b, is_write, number))
			ret = compare_row(h, &p->rows[i], b, number + 1);
	return ret;
}

/* ----------------------------------------------------------- words and ranges */

static int compare_words(struct sr_shard *h, uint32_t piece, const struct sr_access *b, uint64_t number)
{
	const uint64_t begin = number * SR_PIECE, end = begin + SR_PIECE;
	const size_t first = b->begin > begin ? sr_word_of(b->begin) : 0, last = b->end < end ? sr_word_of(b->end - 1) : SR_WORDS - 1;
	const struct words *w = piece < h->words_n ? &h->words[piece] : NULL;
	uint64_t used = w ? w->used & UINT64_MAX << first & UINT64_MAX >> (SR_WORDS - 1 - last) : 0;
	int ret = 0;

	for (; used && !ret; used &= used - 1)
		ret = compare_list(h, &w->lists[__builtin_ctzll(used)], b, number);
	return ret;
}

static int by_serial(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

/* Of a range that may meet `b` in this piece first.  It need not be compared here. */
static int meet_range(struct sr_shard *h, uint32_t range, const struct sr_access *b, uint64_t number)
{
	const struct list *p = &h->ranges[range];
	const bool is_write = sr_access_is_write(b);

	for (uint32_t i = 0; i < p->n; i++) {
		struct row **at;

		if (!may_meet(&p->rows[i], b, is_write, number))
			continue;
		at = sr_grow((void **)&h->met, h->met_n, &h->met_room, sizeof(struct row *));
		if (!at)
			return -ENOMEM;
		*at = &p->rows[i];
		h->met_n++;
	}
	return 0;
}

/* The rows of several ranges, in the order in which they came. */
static int compare_met(struct sr_shard *h, const struct sr_access *b, uint64_t number, bool is_of_one)
{
	int ret = 0;

	if (!is_of_one && h->met_n > 1)
		qsort(h->met, h->met_n, sizeof(*h->met), by_serial);
	for (size_t i = 0; i < h->met_n && !ret; i++)
		ret = compare_row(h, h->met[i], b, number + 1);
	h->met_n = 0;
	return ret;
}

static int compare_piece(struct sr_shard *h, uint32_t piece, const struct sr_access *b, uint64_t number)
{
	const struct sr_place_piece *p = &h->places.pieces[piece];
	int ret = 0;

	for (uint32_t i = 0; i < p->n && !ret; i++)
		ret = meet_range(h, p->ranges[i], b, number);
	if (!ret)
		ret = compare_met(h, b, number, p->n == 1);
	return ret ? ret : compare_words(h, piece, b, number);
}

/* An access within a word. */
static int take_small(struct sr_shard *h, uint32_t access, const struct sr_access *b, uint64_t origin)
{
	const uint64_t number = b->begin / SR_PIECE;
	const uint32_t piece = sr_places_piece(&h->places, b->owner, number, true);
	struct words *w;
	int ret = piece == SR_NO_PLACE ? -ENOMEM : compare_piece(h, piece, b, number);

	if (ret)
		return ret;
	for (; h->words_n <= piece; h->words_n++) {
		w = sr_grow((void **)&h->words, h->words_n, &h->words_room, sizeof(*w));
		if (!w)
			return -ENOMEM;
		*w = (struct words){0};
	}
	w = &h->words[piece];
	if (!w->lists) {
		w->lists = sr_arena_get(&h->rows, SR_WORDS * sizeof(*w->lists));
		if (!w->lists || sr_places_add_words(&h->places, piece, number))
			return -ENOMEM;
		memset(w->lists, 0, SR_WORDS * sizeof(*w->lists));
	}
	w->used |= UINT64_C(1) << sr_word_of(b->begin);
	return add(h, &w->lists[sr_word_of(b->begin)], access, b, origin, false);
}

/* Piece by piece: the range has too many meetings for a list. */
static int compare_pieces(struct sr_shard *h, const struct sr_access *b)
{
	int ret = 0;

	for (uint64_t n = b->begin / SR_PIECE; n <= (b->end - 1) / SR_PIECE && !ret; n++)
		if (sr_places_has(&h->places, b->owner, n))
			ret = compare_piece(h, sr_places_piece(&h->places, b->owner, n, false), b, n);
	return ret;
}

static int compare_meetings(struct sr_shard *h, const struct sr_range *r, const struct sr_access *b)
{
	const struct sr_meeting *m = r->meetings, *end = m + r->meetings_n;
	int ret = 0;

	while (m < end && !ret) {
		const uint64_t number = m->number;
		const struct sr_meeting *first = m;

		for (; m < end && m->number == number && m->range != SR_NO_PLACE && !ret; m++)
			ret = meet_range(h, m->range, b, number);
		if (!ret)
			ret = compare_met(h, b, number, m == first + 1);
		if (!ret && m < end && m->number == number)
			ret = compare_words(h, sr_places_piece(&h->places, b->owner, (m++)->number, false), b, number);
	}
	return ret;
}

/* An access of more than a word. */
static int take_wide(struct sr_shard *h, uint32_t access, const struct sr_access *b, uint64_t origin)
{
	const uint32_t range = sr_places_range(&h->places, b->owner, b->begin, b->end);
	int ret;

	if (range == SR_NO_PLACE)
		return -ENOMEM;
	if (range == h->ranges_n) {
		struct list *added = sr_grow((void **)&h->ranges, h->ranges_n, &h->ranges_room, sizeof(*added));

		if (!added)
			return -ENOMEM;
		*added = (struct list){0};
		h->ranges_n++;
	}
	ret = h->places.ranges[range].is_crowded ? compare_pieces(h, b) : compare_meetings(h, &h->places.ranges[range], b);
	return ret ? ret : add(h, &h->ranges[range], access, b, origin, true);
}

/* ------------------------------------------------------------- keys that end */

/* Where the accesses by a key that ends are.  NULL: no memory. */
static struct keyed *keyed_of(struct sr_shard *h, uint64_t key)
{
	struct keyed *k;
	uint64_t at;

	if (sr_keymap_get(&h->keys, key, &at))
		return &h->keyed[at];
	k = sr_grow((void **)&h->keyed, h->keyed_n, &h->keyed_room, sizeof(*k));
	if (!k || sr_keymap_put(&h->keys, key, h->keyed_n))
		return NULL;
	*k = (struct keyed){0};
	h->keyed_n++;
	return k;
}

/* The end of a registration and what is accessed by its key. */
static int take_key(struct sr_shard *h, uint32_t access, uint64_t origin)
{
	const struct sr_access *b = &h->of->m->accesses[access];
	const bool is_release = b->kind == SR_ACCESS_RELEASE;
	struct keyed *k = keyed_of(h, key_of(b->owner, b->key));
	const struct list *others;
	int ret = 0;

	if (!k)
		return -ENOMEM;
	others = is_release ? &k->accesses : &k->releases;
	for (uint32_t i = 0; i < others->n && !ret; i++)
		ret = compare_row(h, &others->rows[i], b, 0);
	return ret ? ret : add(h, is_release ? &k->releases : &k->accesses, access, b, origin, true);
}

/* ------------------------------------------------------------- the shards */

struct sr_shard *sr_shard_new(const struct sr_shards *of, unsigned int number)
{
	struct sr_shard *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->of = of;
	h->number = number;
	h->places = (struct sr_places){.shares = of->n, .share = number, .keeps_meetings = true};
	return h;
}

void sr_shard_free(struct sr_shard *h)
{
	if (!h)
		return;
	sr_arena_free(&h->rows);
	free(h->rings);
	free(h->keyed);
	free(h->words);
	free(h->ranges);
	free(h->met);
	sr_places_free(&h->places);
	sr_keymap_free(&h->keys);
	free(h);
}

uint64_t sr_shard_pairs(const struct sr_shard *h)
{
	return h->pairs;
}

int sr_shards_init(struct sr_shards *s)
{
	const struct sr_race_model *m = s->m;
	int err = 0;

	for (size_t i = 0; m->of_kind[SR_ACCESS_RELEASE] && i < m->accesses_n && !err; i++)
		if (m->accesses[i].kind == SR_ACCESS_RELEASE)
			err = sr_keymap_put(&s->released, key_of(m->accesses[i].owner, m->accesses[i].key), 1);
	return err;
}

void sr_shards_free(struct sr_shards *s)
{
	sr_keymap_free(&s->released);
}

static unsigned int number_of(const struct sr_shards *s, uint32_t owner, uint64_t number)
{
	return (unsigned int)((number + owner) % s->n);
}

static bool is_released(const struct sr_shards *s, const struct sr_access *a)
{
	uint64_t is;

	return a->key && s->released.used && sr_keymap_get(&s->released, key_of(a->owner, a->key), &is);
}

uint64_t sr_shards_of(const struct sr_shards *s, const struct sr_access *a)
{
	const uint64_t all = UINT64_MAX >> (64 - s->n);
	uint64_t is = 0;

	if (s->n == 1)
		return 1;
	if (is_released(s, a))
		is |= UINT64_C(1) << number_of(s, a->owner, a->key);
	if (a->kind == SR_ACCESS_RELEASE)
		return is;
	for (uint64_t n = a->begin / SR_PIECE; a->begin < a->end && n <= (a->end - 1) / SR_PIECE && is != all; n++)
		is |= UINT64_C(1) << number_of(s, a->owner, n);
	return is;
}

int sr_shard_take(struct sr_shard *h, const struct sr_race_past *past, uint32_t access, uint32_t place, struct sr_found_pairs *found)
{
	const struct sr_shards *s = h->of;
	const struct sr_access *b = &s->m->accesses[access];
	const uint64_t origin = origin_of(h, b);
	int ret = 0;

	h->past = past;
	h->place = place;
	h->found = found;
	if (is_released(s, b) && number_of(s, b->owner, b->key) == h->number)
		ret = take_key(h, access, origin);
	if (ret || b->kind == SR_ACCESS_RELEASE || b->begin >= b->end)
		return ret;
	if (!sr_is_within_word(b->begin, b->end))
		return take_wide(h, access, b, origin);
	return sr_places_has(&h->places, b->owner, b->begin / SR_PIECE) ? take_small(h, access, b, origin) : 0;
}
