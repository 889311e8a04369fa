/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/producers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "logd/base/checksum.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/image.h"

#define PIECE 512
/* What is longer is compared only where a value has all of it. */
#define SMALL 1024
/* So many of a piece are looked at, from the last one back. */
#define LOOK 256

struct written {
	struct sr_race_written w;
	uint64_t result; /* of an atomic */
	bool has_result;
	bool is_past; /* the owner has seen what came after it */
};

struct row {
	uint32_t *at;
	size_t n, room;
};

struct sr_race_producers {
	struct written *all;
	size_t n, room;
	uint32_t *by_number; /* of those in `all`, plus 1: numbers are given in a row */
	size_t by_number_n, by_number_room;
	struct sr_keymap pieces;
	struct row *rows;
	size_t rows_n, rows_room;
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
	for (size_t i = 0; i < p->rows_n; i++)
		free(p->rows[i].at);
	free(p->rows);
	free(p->all);
	free(p->by_number);
	sr_keymap_free(&p->pieces);
	sr_image_free(&p->image);
	free(p);
}

static struct row *row_of(struct sr_race_producers *p, uint32_t owner, uint64_t piece, bool make)
{
	uint64_t key = piece * 0x10001 + owner, at;
	struct row *r;

	if (sr_keymap_get(&p->pieces, key, &at))
		return &p->rows[at];
	if (!make)
		return NULL;
	r = sr_grow((void **)&p->rows, p->rows_n, &p->rows_room, sizeof(*r));
	if (!r || sr_keymap_put(&p->pieces, key, p->rows_n))
		return NULL;
	*r = (struct row){0};
	p->rows_n++;
	return r;
}

static int note_number(struct sr_race_producers *p, uint64_t number)
{
	for (size_t i = p->by_number_n; i <= number; i++) {
		uint32_t *at = sr_grow((void **)&p->by_number, i, &p->by_number_room, sizeof(*at));

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
	struct written *added = sr_grow((void **)&p->all, p->n, &p->room, sizeof(*added));

	if (!added || note_number(p, w->number))
		return -ENOMEM;
	*added = (struct written){.w = *w};
	for (uint64_t k = w->begin / PIECE; w->begin < w->end && k <= (w->end - 1) / PIECE; k++) {
		struct row *r = row_of(p, w->owner, k, true);
		uint32_t *at = r ? sr_grow((void **)&r->at, r->n, &r->room, sizeof(*at)) : NULL;

		if (!at)
			return -ENOMEM;
		*at = (uint32_t)p->n;
		r->n++;
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
		sr_image_get(&p->image, a->w.owner, a->w.begin, small, size);
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
	uint32_t at[LOOK];
	enum fit fit[LOOK];
	size_t n;
	bool are_all;
};

/* Covers `address`; *end is cut to where another set of requests begins. */
static void collect(const struct sr_race_producers *p, const struct row *r, uint64_t address, uint64_t *end,
		    uint64_t by, const struct sr_race_producing *asked, struct candidates *c)
{
	size_t seen = 0, i;

	c->n = 0;
	for (i = r ? r->n : 0; i-- > 0 && seen < LOOK; seen++) {
		const struct written *a = &p->all[r->at[i]];

		/* What is elsewhere in the piece is the most. */
		if (a->w.end <= address || a->w.begin >= *end || a->is_past || a->w.number == by ||
		    !asked->may_have_come(asked->argument, a->w.number))
			continue;
		if (a->w.begin > address && a->w.begin < *end)
			*end = a->w.begin;
		if (a->w.begin > address)
			continue;
		if (a->w.end < *end)
			*end = a->w.end;
		c->at[c->n++] = r->at[i];
	}
	c->are_all = seen < LOOK;
}

/* The owner has seen this one: those before it on its queue, and itself if it was seen whole, will not come again. */
static void pass(struct sr_race_producers *p, struct row *r, const struct written *seen, bool is_whole)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct written *a = &p->all[r->at[i]];

		if (a->w.queue == seen->w.queue && a->w.begin >= seen->w.begin && a->w.end <= seen->w.end &&
		    (a->w.place < seen->w.place || (a == seen && is_whole)))
			a->is_past = true;
		if (!a->is_past)
			r->at[kept++] = r->at[i];
	}
	r->n = kept;
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
		if (c->fit[i] >= best)
			found->fits[found->n++] = p->all[c->at[i]].w.number;
	found->is_complete = c->are_all && found->n < SR_PRODUCERS_MOST;
	found->is_certain = found->n == 1 && found->is_complete && (best == FITS || !doubtful);
}

uint64_t sr_race_producers_next(struct sr_race_producers *p, uint32_t owner, uint64_t address, const uint8_t *data,
				uint64_t length, uint64_t by, bool no_stores, struct sr_race_producing *found)
{
	static struct candidates c;
	struct row *r = row_of(p, owner, address / PIECE, false);
	uint64_t end = address + length, piece_end = (address / PIECE + 1) * PIECE;
	const struct written *seen;

	if (end > piece_end)
		end = piece_end;
	collect(p, r, address, &end, by, found, &c);
	if (!by && sr_image_put(&p->image, owner, address, data, end - address))
		return 0;
	for (size_t i = 0; i < c.n; i++)
		c.fit[i] = fits(p, &p->all[c.at[i]], address, data, length);
	choose(p, &c, found);
	/* A CPU's store may have left what a READ fetched. */
	found->is_from_requests = !by || no_stores;
	found->is_certain &= found->is_from_requests;
	seen = !by && found->is_certain ? of_number(p, found->fits[0]) : NULL;
	if (seen)
		pass(p, r, seen, seen->w.end - seen->w.begin <= 8 || (address <= seen->w.begin && seen->w.end <= end));
	return end - address;
}
