/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/producers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/base/checksum.h"
#include "logd/base/opcodes.h"
#include "replay/analysis/log/arena.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/races/image.h"
#include "replay/analysis/races/places.h"

/* Memory in pieces (places.h), with the requests that change it: by word, or by range. */
#define PIECE SR_PIECE
#define WORD  SR_WORD
#define WORDS SR_WORDS
/* What is longer is compared only where a value has all of it. */
#define SMALL 1024
/* So many of a row are looked at, from the last one back. */
#define LOOK 256

struct written {
	struct sr_race_written w;
	uint64_t result; /* of an atomic */
	bool has_result;
	bool is_past; /* the owner has seen what came after it */
};

struct row {
	uint32_t *at;
	uint32_t n, room;
};

/* Of a piece. */
struct words {
	struct row *rows; /* WORDS of them; NULL: all are empty */
	uint64_t used;    /* a bit for each word whose row is not empty */
};

/* A row that is gone through from its end. */
struct walk {
	const struct row *row;
	uint32_t left;
};

struct sr_race_producers {
	struct written *all;
	size_t n, room;
	uint32_t *by_number; /* of those in `all`, plus 1: numbers are given in a row */
	size_t by_number_n, by_number_room;
	struct sr_places places;
	struct words *words; /* by piece */
	size_t words_n, words_room;
	struct row *wide; /* by range: requests that go beyond a word */
	size_t wide_n, wide_room;
	struct walk *walks; /* of the ranges of a piece */
	size_t walks_n, walks_room;
	struct sr_arena rows; /* and what they have */
	struct sr_image image;
};

struct sr_race_producers *sr_race_producers_new(void)
{
	return calloc(1, sizeof(struct sr_race_producers));
}

void sr_race_producers_free(struct sr_race_producers *p)
{
	if (!p)
		return;
	sr_arena_free(&p->rows);
	free(p->words);
	free(p->wide);
	free(p->walks);
	sr_large_free(p->all, p->room, sizeof(*p->all));
	sr_large_free(p->by_number, p->by_number_room, sizeof(*p->by_number));
	sr_places_free(&p->places);
	sr_image_free(&p->image);
	free(p);
}

/* Of those within a word.  NULL: no memory. */
static struct row *row_of_word(struct sr_race_producers *p, const struct sr_race_written *w)
{
	const uint32_t piece = sr_places_piece(&p->places, w->owner, w->begin / PIECE, true);
	struct words *q;

	for (; piece != SR_NO_PLACE && p->words_n <= piece; p->words_n++) {
		q = sr_grow((void **)&p->words, p->words_n, &p->words_room, sizeof(*q));
		if (!q)
			return NULL;
		*q = (struct words){0};
	}
	if (piece == SR_NO_PLACE)
		return NULL;
	q = &p->words[piece];
	if (!q->rows) {
		q->rows = sr_arena_get(&p->rows, WORDS * sizeof(*q->rows));
		if (!q->rows)
			return NULL;
		memset(q->rows, 0, WORDS * sizeof(*q->rows));
	}
	q->used |= UINT64_C(1) << sr_word_of(w->begin);
	return &q->rows[sr_word_of(w->begin)];
}

static struct row *row_of_range(struct sr_race_producers *p, const struct sr_race_written *w)
{
	const uint32_t range = sr_places_range(&p->places, w->owner, w->begin, w->end);
	struct row *r;

	if (range == SR_NO_PLACE)
		return NULL;
	if (range == p->wide_n) {
		r = sr_grow((void **)&p->wide, p->wide_n, &p->wide_room, sizeof(*r));
		if (!r)
			return NULL;
		*r = (struct row){0};
		p->wide_n++;
	}
	return &p->wide[range];
}

/* Where a request is kept; NULL: no memory. */
static struct row *row_for(struct sr_race_producers *p, const struct sr_race_written *w)
{
	return sr_is_within_word(w->begin, w->end) ? row_of_word(p, w) : row_of_range(p, w);
}

static int keep(struct sr_race_producers *p, struct row *r, uint32_t written)
{
	if (r->n == r->room) {
		uint32_t room = r->room ? 2 * r->room : 4;
		uint32_t *more = sr_arena_get(&p->rows, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		if (r->n)
			memcpy(more, r->at, r->n * sizeof(*more));
		sr_arena_put(&p->rows, r->at, r->room * sizeof(*more));
		r->at = more;
		r->room = room;
	}
	r->at[r->n++] = written;
	return 0;
}

static int note_number(struct sr_race_producers *p, uint64_t number)
{
	for (size_t i = p->by_number_n; i <= number; i++) {
		uint32_t *at = sr_large_grow((void **)&p->by_number, i, &p->by_number_room, sizeof(*at));

		if (!at)
			return -ENOMEM;
		*at = 0;
		p->by_number_n++;
	}
	p->by_number[number] = (uint32_t)p->n + 1;
	return 0;
}

/* NULL: it changes nothing. */
static struct written *of_number(const struct sr_race_producers *p, uint64_t number)
{
	return number < p->by_number_n && p->by_number[number] ? &p->all[p->by_number[number] - 1] : NULL;
}

int sr_race_producers_add(struct sr_race_producers *p, const struct sr_race_written *w)
{
	struct written *added = sr_large_grow((void **)&p->all, p->n, &p->room, sizeof(*added));

	if (!added || note_number(p, w->number))
		return -ENOMEM;
	*added = (struct written){.w = *w};
	if (w->begin < w->end) {
		struct row *r = row_for(p, w);

		if (!r || keep(p, r, (uint32_t)p->n))
			return -ENOMEM;
	}
	p->n++;
	return 0;
}

int sr_race_producers_result(struct sr_race_producers *p, uint64_t number, uint64_t value)
{
	struct written *w = of_number(p, number);

	if (w) {
		w->result = value;
		w->has_result = true;
	}
	return 0;
}

int sr_race_producers_see(struct sr_race_producers *p, uint32_t owner, uint64_t address, const uint8_t *data, uint64_t length)
{
	return sr_image_put(&p->image, owner, address, data, length);
}

void sr_race_producers_get(const struct sr_race_producers *p, uint32_t owner, uint64_t address, uint8_t *data, uint64_t length)
{
	sr_image_get(&p->image, owner, address, data, length);
}

/* ------------------------------------------------------------- does it fit */

/* DOUBTFUL: the bytes differ, or the CPU has stored others around those that are known. */
enum fit { FITS_NOT, DOUBTFUL, MAY_FIT, FITS };

static enum fit atomic_fits(const struct written *a, uint64_t word)
{
	if (a->w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		return a->w.operand == word ? FITS : FITS_NOT;
	if (!a->has_result)
		return MAY_FIT;
	return a->result + a->w.operand == word ? FITS : FITS_NOT;
}

/* All bytes of the request's place: those of the run, which the image does not have to its end yet, and around it what is known. */
static void get_with(const struct sr_race_producers *p, const struct written *a, uint64_t address, const uint8_t *data, uint64_t length,
		     uint8_t *whole)
{
	const uint64_t begin = address > a->w.begin ? address : a->w.begin;
	const uint64_t end = address + length < a->w.end ? address + length : a->w.end;

	sr_image_get(&p->image, a->w.owner, a->w.begin, whole, a->w.end - a->w.begin);
	if (begin < end)
		memcpy(whole + (begin - a->w.begin), data + (begin - address), end - begin);
}

/* The bytes are those of the run, and around it what is known. */
static enum fit fits(const struct sr_race_producers *p, const struct written *a, uint64_t address, const uint8_t *data,
		     uint64_t length)
{
	uint64_t size = a->w.end - a->w.begin;
	uint8_t small[SMALL];
	const uint8_t *whole = small;
	uint64_t word;
	bool is_whole = address <= a->w.begin && a->w.end <= address + length;

	if (is_whole)
		whole = data + (a->w.begin - address);
	else if (size <= SMALL)
		get_with(p, a, address, data, length, small);
	else
		return MAY_FIT;
	if (a->w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || a->w.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&word, whole, sizeof(word));
		return atomic_fits(a, word);
	}
	if (!a->w.checksum)
		return MAY_FIT;
	if (sr_checksum(whole, size, 0) == a->w.checksum)
		return FITS;
	return is_whole ? FITS_NOT : DOUBTFUL;
}

/* ------------------------------------------------------------ of one run */

struct candidates {
	uint32_t at[2 * LOOK];
	enum fit fit[2 * LOOK];
	size_t n;
	bool are_all;
};

static bool may_be_of(const struct written *a, uint64_t by, const struct sr_race_producing *asked)
{
	return !a->is_past && a->w.number != by && asked->may_have_come(asked->argument, &a->w);
}

/* If it covers `address` it is one; *end is cut to where another set of requests begins. */
static void consider(const struct sr_race_producers *p, uint32_t written, uint64_t address, uint64_t *end, uint64_t by,
		     const struct sr_race_producing *asked, struct candidates *c)
{
	const struct written *a = &p->all[written];

	if (a->w.end <= address || a->w.begin >= *end || !may_be_of(a, by, asked))
		return;
	if (a->w.begin > address) {
		*end = a->w.begin;
		return;
	}
	if (a->w.end < *end)
		*end = a->w.end;
	c->at[c->n++] = written;
}

static void collect_row(const struct sr_race_producers *p, const struct row *r, uint64_t address, uint64_t *end, uint64_t by,
			const struct sr_race_producing *asked, struct candidates *c)
{
	size_t seen = 0;

	for (size_t i = r->n; i-- > 0 && seen < LOOK; seen++)
		consider(p, r->at[i], address, end, by, asked, c);
	c->are_all &= seen < LOOK;
}

static uint32_t last_of(const struct walk *w)
{
	return w->row->at[w->left - 1];
}

/* A heap, the last request on top: the walk at i may be too far up. */
static void sift(struct walk *walks, size_t n, size_t i)
{
	for (;;) {
		const size_t left = 2 * i + 1;
		size_t most = i;
		struct walk w;

		for (size_t k = left; k < n && k < left + 2; k++)
			if (last_of(&walks[k]) > last_of(&walks[most]))
				most = k;
		if (most == i)
			return;
		w = walks[i];
		walks[i] = walks[most];
		walks[most] = w;
		i = most;
	}
}

/* The rows of all ranges of the piece, which meet the bytes or not.  0 or -ENOMEM. */
static int begin_walks(struct sr_race_producers *p, const struct sr_place_piece *q)
{
	p->walks_n = 0;
	for (uint32_t i = 0; i < q->n; i++) {
		const struct row *r = &p->wide[q->ranges[i]];
		struct walk *w;

		if (!r->n)
			continue;
		w = sr_grow((void **)&p->walks, p->walks_n, &p->walks_room, sizeof(*w));
		if (!w)
			return -ENOMEM;
		*w = (struct walk){r, r->n};
		p->walks_n++;
	}
	for (size_t i = p->walks_n / 2; i-- > 0;)
		sift(p->walks, p->walks_n, i);
	return 0;
}

/* The last one of all that are left in the walks. */
static bool next_back(struct sr_race_producers *p, uint32_t *written)
{
	struct walk *top = p->walks;

	if (!p->walks_n)
		return false;
	*written = last_of(top);
	if (!--top->left)
		*top = p->walks[--p->walks_n];
	sift(p->walks, p->walks_n, 0);
	return true;
}

static int collect_ranges(struct sr_race_producers *p, const struct sr_place_piece *q, uint64_t address, uint64_t *end, uint64_t by,
			  const struct sr_race_producing *asked, struct candidates *c)
{
	uint32_t written;
	size_t seen = 0;

	if (begin_walks(p, q))
		return -ENOMEM;
	for (; seen < LOOK && next_back(p, &written); seen++)
		consider(p, written, address, end, by, asked, c);
	c->are_all &= seen < LOOK;
	return 0;
}

/* The last one first. */
static int by_place(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x < y) - (x > y);
}

static struct words *words_of(const struct sr_race_producers *p, uint32_t piece)
{
	return piece < p->words_n ? &p->words[piece] : NULL;
}

static int collect(struct sr_race_producers *p, uint32_t piece, uint64_t address, uint64_t *end, uint64_t by,
		   const struct sr_race_producing *asked, struct candidates *c)
{
	const struct words *q = words_of(p, piece);
	size_t wide;

	c->n = 0;
	c->are_all = true;
	if (piece == SR_NO_PLACE)
		return 0;
	if (collect_ranges(p, &p->places.pieces[piece], address, end, by, asked, c))
		return -ENOMEM;
	wide = c->n;
	for (uint64_t left = q ? q->used & UINT64_MAX << sr_word_of(address) : 0; left; left &= left - 1) {
		const size_t word = (size_t)__builtin_ctzll(left);

		if (address / PIECE * PIECE + word * WORD >= *end)
			break;
		collect_row(p, &q->rows[word], address, end, by, asked, c);
	}
	if (wide && c->n > wide)
		qsort(c->at, c->n, sizeof(*c->at), by_place);
	return 0;
}

/* A row has them in the order of their queue. */
static void keep_skipped(const struct written *a, const struct written *seen, struct sr_race_producing *found)
{
	if (a->is_past || a == seen || a->w.begin != seen->w.begin || a->w.end != seen->w.end || a->w.begin / WORD != (a->w.end - 1) / WORD ||
	    !(sr_op(a->w.opcode) & SR_OP_CHANGES) || sr_op(a->w.opcode) & SR_OP_ATOMIC)
		return;
	if (found->skipped_n == SR_SKIPPED_MOST)
		memmove(found->skipped, found->skipped + 1, --found->skipped_n * sizeof(found->skipped[0]));
	found->skipped[found->skipped_n++] = (uint32_t)a->w.number;
}

static void pass_row(struct sr_race_producers *p, struct row *r, const struct written *seen, bool is_whole, struct sr_race_producing *found)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		struct written *a = &p->all[r->at[i]];

		if (a->w.queue == seen->w.queue && a->w.begin >= seen->w.begin && a->w.end <= seen->w.end &&
		    (a->w.place < seen->w.place || (a == seen && is_whole))) {
			keep_skipped(a, seen, found);
			a->is_past = true;
		}
		if (!a->is_past)
			r->at[kept++] = r->at[i];
	}
	r->n = kept;
}

/* The owner has seen this one: those before it on its queue, and itself if it was seen whole, will not come again. */
static void pass(struct sr_race_producers *p, uint32_t piece, uint64_t number, const struct written *seen, bool is_whole,
		 struct sr_race_producing *found)
{
	const struct sr_place_piece *ranges = &p->places.pieces[piece];
	struct words *q = words_of(p, piece);
	const uint64_t begin = number * PIECE;
	const size_t first = seen->w.begin > begin ? sr_word_of(seen->w.begin) : 0,
		     last = seen->w.end < begin + PIECE ? sr_word_of(seen->w.end - 1) : WORDS - 1;
	uint64_t left = q ? q->used & UINT64_MAX << first & UINT64_MAX >> (WORDS - 1 - last) : 0;

	for (uint32_t i = 0; i < ranges->n; i++)
		pass_row(p, &p->wide[ranges->ranges[i]], seen, is_whole, found);
	for (; left; left &= left - 1)
		pass_row(p, &q->rows[__builtin_ctzll(left)], seen, is_whole, found);
}

/* Is it the next one back in a row of its queue, of which the last one is kept?  Then it takes the place of the first one so far. */
static bool extends_row(const struct sr_race_producers *p, const struct written *a, struct sr_race_producing *found)
{
	size_t of_queue = 0, first = 0;

	for (size_t i = 0; i < found->n; i++)
		if (of_number(p, found->fits[i])->w.queue == a->w.queue) {
			of_queue++;
			first = i;
		}
	if (of_queue < 2 || !found->has_ended_before(found->argument, a->w.number, found->fits[first]))
		return false;
	/* Only the first one of a row may go. */
	for (size_t i = first; i-- > 0;)
		if (of_number(p, found->fits[i])->w.queue == a->w.queue)
			if (!found->has_ended_before(found->argument, found->fits[first], found->fits[i]))
				return false;
	found->fits[first] = a->w.number;
	return true;
}

static void choose(const struct sr_race_producers *p, const struct candidates *c, struct sr_race_producing *found)
{
	enum fit best = DOUBTFUL;
	size_t doubtful = 0;

	for (size_t i = 0; i < c->n; i++) {
		doubtful += c->fit[i] == DOUBTFUL;
		if (c->fit[i] == FITS)
			best = FITS;
	}
	found->n = 0;
	for (size_t i = 0; i < c->n && found->n < SR_PRODUCERS_MOST; i++)
		if (c->fit[i] >= best && !extends_row(p, &p->all[c->at[i]], found))
			found->fits[found->n++] = p->all[c->at[i]].w.number;
	found->is_complete = c->are_all && found->n < SR_PRODUCERS_MOST;
	found->is_untouched = c->are_all && !c->n;
	found->is_certain = found->n == 1 && found->is_complete && (best == FITS || !doubtful);
}

uint64_t sr_race_producers_next(struct sr_race_producers *p, uint32_t owner, uint64_t address, const uint8_t *data,
				uint64_t length, uint64_t by, bool no_stores, struct sr_race_producing *found)
{
	static struct candidates c;
	const uint32_t piece = sr_places_piece(&p->places, owner, address / PIECE, false);
	uint64_t end = address + length, piece_end = (address / PIECE + 1) * PIECE;
	const struct written *seen;
	uint8_t was[PIECE], word[WORD];
	bool is_same;

	if (end > piece_end)
		end = piece_end;
	if (collect(p, piece, address, &end, by, found, &c))
		return 0;
	sr_image_get(&p->image, owner, address, was, end - address);
	is_same = !memcmp(was, data, end - address);
	found->skipped_n = 0;
	found->word = address / WORD * WORD;
	sr_image_get(&p->image, owner, found->word, word, WORD);
	memcpy(&found->before, word, WORD);
	if (!by && sr_image_put(&p->image, owner, address, data, end - address))
		return 0;
	for (size_t i = 0; i < c.n; i++)
		c.fit[i] = fits(p, &p->all[c.at[i]], address, data, length);
	choose(p, &c, found);
	found->is_untouched &= is_same;
	/* A CPU's store may have left what a READ fetched. */
	found->is_from_requests = !by || no_stores;
	found->is_certain &= found->is_from_requests;
	seen = !by && found->is_certain ? of_number(p, found->fits[0]) : NULL;
	if (seen)
		pass(p, piece, address / PIECE, seen, seen->w.end - seen->w.begin <= 8 || (address <= seen->w.begin && seen->w.end <= end), found);
	return end - address;
}
