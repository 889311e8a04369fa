/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/candidates.h"

#include <string.h>

#define ORDERED	 1024 /* writes of a candidate all orders of which are tried ... */
#define BRANCHES 128  /* ... at so many places: an operation's stack is small */

/* Does the writer's next write lie over any that others still have? */
static bool is_contended(const struct sr_candidates *s, const uint32_t at[WRITERS], uint32_t of)
{
	const struct sr_written *w = &s->writer[of].w[at[of]];

	for (uint32_t i = 0; i < s->writers; i++)
		for (uint32_t k = i == of ? s->writer[i].end : at[i]; k < s->writer[i].end; k++) {
			const struct sr_written *x = &s->writer[i].w[k];

			if (x->from < w->from + w->length && w->from < x->from + x->length)
				return true;
		}
	return false;
}

/* Has the writer a later write over all of its next one?  Then nothing of that is to be seen, whatever others write before or after. */
static bool is_covered(const struct sr_candidates *s, const uint32_t at[WRITERS], uint32_t of)
{
	const struct sr_writer *writer = &s->writer[of];
	const struct sr_written *w = &writer->w[at[of]];

	for (uint32_t k = at[of] + 1; k < writer->end; k++) {
		const struct sr_written *x = &writer->w[k];
		bool in_part = s->part < x->length && of == s->partial && k + 1 == writer->end;

		if (x->from <= w->from && w->from + w->length <= x->from + (in_part ? s->part : x->length))
			return true;
	}
	return false;
}

/* -1: there is none, or an atomic may have found what nobody sees any more. */
static int first_covered(const struct sr_candidates *s, const uint32_t at[WRITERS])
{
	for (uint32_t i = 0; i < s->writers && !s->atomics; i++)
		if (at[i] < s->writer[i].end && is_covered(s, at, i))
			return (int)i;
	return -1;
}

/* The writer whose next write comes first if what was known of other members decides; -1: none has more. */
static int first_known(const struct sr_candidates *s, const uint32_t at[WRITERS])
{
	int first = -1;

	for (uint32_t i = 0; i < s->writers; i++)
		if (at[i] < s->writer[i].end &&
		    (first < 0 || s->writer[i].w[at[i]].weight < s->writer[first].w[at[first]].weight))
			first = (int)i;
	return first;
}

static bool try_orders(struct sr_candidates *s, const uint32_t at[WRITERS], uint32_t n);

static bool try_next(struct sr_candidates *s, uint32_t at[WRITERS], uint32_t n, uint32_t of)
{
	bool found;

	s->sequence[n] = (uint8_t)of;
	at[of]++;
	s->branches++;
	found = try_orders(s, at, n + 1);
	s->branches--;
	at[of]--;
	return found;
}

/* All orders of the candidate's writes, as far as they differ; the first is the one of what was known. */
static bool try_orders(struct sr_candidates *s, const uint32_t from[WRITERS], uint32_t n)
{
	uint32_t at[WRITERS];
	int first, covered;

	memcpy(at, from, sizeof(at));
	for (; (first = first_known(s, at)) >= 0 && n < SEQUENCE; n++) {
		covered = s->all_orders ? first_covered(s, at) : -1;
		if (covered >= 0)
			first = covered;
		else if (s->all_orders && s->branches < BRANCHES && is_contended(s, at, (uint32_t)first))
			break;
		s->sequence[n] = (uint8_t)first;
		at[first]++;
	}
	if (first < 0)
		return sr_candidate_fits(s, n);
	if (n == SEQUENCE)
		return false;
	if (try_next(s, at, n, (uint32_t)first))
		return true;
	for (uint32_t i = 0; i < s->writers && s->tries < s->most; i++)
		if ((int)i != first && at[i] < s->writer[i].end && try_next(s, at, n, i))
			return true;
	return false;
}

static bool fits(struct sr_candidates *s)
{
	uint32_t at[WRITERS] = {0};

	s->branches = 0;
	for (uint32_t i = 0; i < s->writers; i++)
		at[i] = s->writer[i].begin;
	return try_orders(s, at, 0);
}

/* The k-th cut of a writer to be tried: as known, one more, one fewer, two more, ...; -1: there is no other one. */
static int64_t cut(const struct sr_writer *w, uint32_t k)
{
	uint32_t first = w->known > w->begin ? w->known : w->begin;
	uint32_t up = w->n - first, down = first - w->begin, both = up < down ? up : down;

	if (k > up + down)
		return -1;
	if (k <= 2 * both)
		return (int64_t)first + (k % 2 ? (int64_t)(k + 1) / 2 : -(int64_t)(k / 2));
	return up > down ? first + (k - both) : first - (k - both);
}

/* All combinations of cuts in which so many writers' are in all `away` from the first to be tried. */
static bool try_away(struct sr_candidates *s, uint32_t i, uint32_t away)
{
	int64_t end;

	if (i == s->writers)
		return !away && fits(s);
	for (uint32_t k = i + 1 < s->writers ? 0 : away; k <= away && s->tries < s->most; k++) {
		end = cut(&s->writer[i], k);
		if (end < 0)
			break;
		s->writer[i].end = (uint32_t)end;
		if (try_away(s, i + 1, away - k))
			return true;
	}
	return false;
}

/* The nearest to what is known first. */
static bool try_cuts(struct sr_candidates *s)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < s->writers; i++)
		most += s->writer[i].n - s->writer[i].begin;
	for (uint32_t away = 0; away <= most && s->tries < s->most; away++)
		if (try_away(s, 0, away))
			return true;
	return false;
}

/* A beginning of the last write of one writer, where the others' cuts are as known. */
static bool try_parts(struct sr_candidates *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		s->writer[i].end = (uint32_t)cut(&s->writer[i], 0);
	for (s->partial = 0; s->partial < s->writers; s->partial++) {
		struct sr_writer *w = &s->writer[s->partial];
		uint32_t before = w->end;
		int64_t end;

		for (uint32_t k = 0; (end = cut(w, k)) >= 0; k++) {
			if ((uint32_t)end <= w->begin)
				continue;
			w->end = (uint32_t)end;
			for (s->part = 8; s->part < w->w[end - 1].length && s->tries < s->most; s->part += 8)
				if (fits(s))
					return true;
		}
		w->end = before;
	}
	s->part = UINT32_MAX;
	return false;
}

static void begin_behind_landed(const struct sr_candidates *s, uint32_t again)
{
	for (uint32_t i = 0; i < s->writers; i++)
		s->writer[i].begin = s->writer[i].landed > again ? s->writer[i].landed - again : 0;
}

bool sr_candidates_try(struct sr_candidates *s, bool all_orders)
{
	s->all_orders = all_orders;
	s->tries = 0;
	for (uint32_t again = 0; again <= AGAIN; again += again ? again : 1) {
		begin_behind_landed(s, again);
		if (try_cuts(s))
			return true;
	}
	begin_behind_landed(s, 0);
	return s->most == LANDED_TRIES && try_parts(s);
}

bool sr_candidates_try_own(struct sr_candidates *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		s->writer[i].begin = s->writer[i].end = 0;
	s->own_last = false;
	return sr_candidate_fits(s, 0);
}

bool sr_candidates_have_orders(const struct sr_candidates *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->writers; i++)
		n += s->writer[i].n;
	return s->writers > 1 && n <= ORDERED;
}

bool sr_candidates_try_pieces(struct sr_candidates *s, uint32_t n)
{
	bool found;

	s->own_last = s->all_orders = false;
	begin_behind_landed(s, 0);
	for (uint32_t i = 0; i < s->writers; i++)
		s->writer[i].end = (uint32_t)cut(&s->writer[i], 0);
	s->unpolled = n;
	found = fits(s);
	s->unpolled = 0;
	return found;
}
