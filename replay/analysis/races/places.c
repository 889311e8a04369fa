/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"

/* So many meetings of a range are kept: of n that all meet each other there are n * n. */
#define MEETINGS_MOST 256

void sr_places_free(struct sr_places *p)
{
	sr_arena_free(&p->lists);
	free(p->pieces);
	free(p->ranges);
	sr_keymap_free(&p->of_piece);
	sr_keymap_free(&p->of_range);
}

bool sr_places_has(const struct sr_places *p, uint32_t owner, uint64_t number)
{
	return p->shares < 2 || (number + owner) % p->shares == p->share;
}

/* Room for one more in a list.  NULL: no memory. */
static void *make_room(struct sr_places *p, void *list, uint32_t n, uint32_t *room, size_t size)
{
	const uint32_t more = *room ? 2 * *room : 2;
	void *larger;

	if (n < *room)
		return list;
	larger = sr_arena_get(&p->lists, more * size);
	if (!larger)
		return NULL;
	if (n)
		memcpy(larger, list, n * size);
	if (list)
		sr_arena_put(&p->lists, list, *room * size);
	*room = more;
	return larger;
}

/* ------------------------------------------------------------------- pieces */

uint32_t sr_places_piece(struct sr_places *p, uint32_t owner, uint64_t number, bool make)
{
	const uint64_t key = sr_keymap_of_rank(number, owner) + 1;
	struct sr_place_piece *added;
	uint64_t at;

	if (sr_keymap_get(&p->of_piece, key, &at))
		return (uint32_t)at;
	if (!make)
		return SR_NO_PLACE;
	added = sr_grow((void **)&p->pieces, p->pieces_n, &p->pieces_room, sizeof(*added));
	if (!added || sr_keymap_put(&p->of_piece, key, p->pieces_n))
		return SR_NO_PLACE;
	*added = (struct sr_place_piece){0};
	return (uint32_t)p->pieces_n++;
}

static int put_range(struct sr_places *p, uint32_t piece, uint32_t range)
{
	struct sr_place_piece *q = &p->pieces[piece];
	uint32_t *list = make_room(p, q->ranges, q->n, &q->room, sizeof(*list));

	if (!list)
		return -ENOMEM;
	q->ranges = list;
	q->ranges[q->n++] = range;
	return 0;
}

/* ----------------------------------------------------------------- meetings */

static bool comes_before(const struct sr_meeting *a, const struct sr_meeting *b)
{
	return a->number != b->number ? a->number < b->number : a->range < b->range;
}

static int meet(struct sr_places *p, uint32_t range, struct sr_meeting m)
{
	struct sr_range *r = &p->ranges[range];
	struct sr_meeting *list;
	uint32_t at;

	if (r->is_crowded)
		return 0;
	if (r->meetings_n == MEETINGS_MOST) {
		sr_arena_put(&p->lists, r->meetings, r->meetings_room * sizeof(*list));
		r->meetings = NULL;
		r->meetings_n = r->meetings_room = 0;
		r->is_crowded = true;
		return 0;
	}
	list = make_room(p, r->meetings, r->meetings_n, &r->meetings_room, sizeof(*list));
	if (!list)
		return -ENOMEM;
	r->meetings = list;
	for (at = r->meetings_n; at && comes_before(&m, &list[at - 1]); at--)
		list[at] = list[at - 1];
	list[at] = m;
	r->meetings_n++;
	return 0;
}

int sr_places_add_words(struct sr_places *p, uint32_t piece, uint64_t number)
{
	struct sr_place_piece *q = &p->pieces[piece];
	int err = 0;

	if (q->has_words)
		return 0;
	q->has_words = true;
	for (uint32_t i = 0; i < q->n && p->keeps_meetings && !err; i++)
		err = meet(p, q->ranges[i], (struct sr_meeting){number, SR_NO_PLACE});
	return err;
}

/* A new range comes to a piece; it may meet itself. */
static int meet_in(struct sr_places *p, uint32_t range, uint32_t piece, uint64_t number)
{
	const struct sr_place_piece *q = &p->pieces[piece];
	const uint64_t begin = p->ranges[range].begin, end = p->ranges[range].end;
	int err = q->has_words ? meet(p, range, (struct sr_meeting){number, SR_NO_PLACE}) : 0;

	for (uint32_t i = 0; i < q->n && !err; i++) {
		const uint32_t other = q->ranges[i];
		const struct sr_range *o = &p->ranges[other];

		if (o->begin >= end || begin >= o->end || (o->begin > begin ? o->begin : begin) / SR_PIECE != number)
			continue;
		err = meet(p, range, (struct sr_meeting){number, other});
		if (!err && other != range)
			err = meet(p, other, (struct sr_meeting){number, range});
	}
	return err;
}

/* ------------------------------------------------------------------- ranges */

static int place(struct sr_places *p, uint32_t range)
{
	const uint64_t begin = p->ranges[range].begin, end = p->ranges[range].end;
	const uint32_t owner = p->ranges[range].owner;
	int err = 0;

	for (uint64_t n = begin / SR_PIECE; n <= (end - 1) / SR_PIECE && !err; n++) {
		uint32_t piece;

		if (!sr_places_has(p, owner, n))
			continue;
		piece = sr_places_piece(p, owner, n, true);
		err = piece == SR_NO_PLACE ? -ENOMEM : put_range(p, piece, range);
		if (!err && p->keeps_meetings)
			err = meet_in(p, range, piece, n);
	}
	return err;
}

static uint64_t hash_of(uint32_t owner, uint64_t begin, uint64_t end)
{
	return sr_keymap_of_rank(begin, owner) ^ (end - begin) * 0x9e3779b97f4a7c15ull;
}

uint32_t sr_places_range(struct sr_places *p, uint32_t owner, uint64_t begin, uint64_t end)
{
	const uint64_t hash = hash_of(owner, begin, end);
	uint64_t first = SR_NO_PLACE;
	struct sr_range *added;

	sr_keymap_get(&p->of_range, hash, &first);
	for (uint32_t i = (uint32_t)first; i != SR_NO_PLACE; i = p->ranges[i].next)
		if (p->ranges[i].begin == begin && p->ranges[i].end == end && p->ranges[i].owner == owner)
			return i;
	added = sr_grow((void **)&p->ranges, p->ranges_n, &p->ranges_room, sizeof(*added));
	if (!added || sr_keymap_put(&p->of_range, hash, p->ranges_n))
		return SR_NO_PLACE;
	*added = (struct sr_range){.begin = begin, .end = end, .owner = owner, .next = (uint32_t)first};
	return place(p, (uint32_t)p->ranges_n++) ? SR_NO_PLACE : (uint32_t)(p->ranges_n - 1);
}
