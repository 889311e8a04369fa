/* SPDX-License-Identifier: BSD-2-Clause */
#include "nicclock/closure.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct found {
	uint64_t at; /* the member's event */
	uint64_t event;
	uint8_t other;
};

/* What a member found, and its vectors: one for each event at which it found something. */
struct history {
	struct found *found;
	size_t count, room;
	uint64_t *at;      /* of each vector */
	uint64_t *vectors; /* `members` numbers each */
	size_t vectors_count;
	size_t done; /* of found */
};

struct sr_closure {
	int members;
	struct history history[SR_CLOCK_MEMBERS];
};

struct sr_closure *sr_closure_create(int members)
{
	struct sr_closure *c;

	if (members < 1 || members > SR_CLOCK_MEMBERS)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (c)
		c->members = members;
	return c;
}

void sr_closure_free(struct sr_closure *c)
{
	for (int i = 0; c && i < c->members; i++) {
		free(c->history[i].found);
		free(c->history[i].at);
		free(c->history[i].vectors);
	}
	free(c);
}

static bool is_member(const struct sr_closure *c, int member)
{
	return member >= 0 && member < c->members;
}

int sr_closure_add(struct sr_closure *c, int member, uint64_t found, const struct sr_order *o)
{
	struct history *h = &c->history[member];
	struct found *more;

	if (!is_member(c, member) || !is_member(c, o->member) || o->member == member ||
	    (h->count && h->found[h->count - 1].at > found))
		return -EINVAL;
	if (h->count == h->room) {
		size_t room = h->room ? h->room * 2 : 64;

		more = realloc(h->found, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		h->found = more;
		h->room = room;
	}
	h->found[h->count++] = (struct found){.at = found, .event = o->event, .other = o->member};
	return 0;
}

/* The last vector at or before `event`, or NULL. */
static const uint64_t *vector_at(const struct sr_closure *c, int member, uint64_t event)
{
	const struct history *h = &c->history[member];
	size_t low = 0, high = h->vectors_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (h->at[middle] <= event)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? h->vectors + (low - 1) * (size_t)c->members : NULL;
}

/* Is all that `member` found up to `event` in its vectors? */
static bool is_computed_to(const struct sr_closure *c, int member, uint64_t event)
{
	const struct history *h = &c->history[member];

	return h->done == h->count || h->found[h->done].at > event;
}

/* The vector of the next event of `member`; false if another member's must be computed first. */
static bool compute_next(struct sr_closure *c, int member)
{
	struct history *h = &c->history[member];
	size_t size = (size_t)c->members * sizeof(uint64_t), end = h->done;
	uint64_t *vector = h->vectors + h->vectors_count * (size_t)c->members;
	uint64_t at = h->found[h->done].at;

	for (; end < h->count && h->found[end].at == at; end++)
		if (!is_computed_to(c, h->found[end].other, h->found[end].event))
			return false;
	if (h->vectors_count)
		memcpy(vector, vector - c->members, size);
	else
		memset(vector, 0, size);
	for (; h->done < end; h->done++) {
		const struct found *f = &h->found[h->done];
		const uint64_t *theirs = vector_at(c, f->other, f->event);

		for (int i = 0; theirs && i < c->members; i++)
			if (i != member && theirs[i] > vector[i])
				vector[i] = theirs[i];
		if (f->event > vector[f->other])
			vector[f->other] = f->event;
	}
	h->at[h->vectors_count++] = at;
	return true;
}

int sr_closure_compute(struct sr_closure *c)
{
	bool progress = true, left = true;

	for (int i = 0; i < c->members; i++) {
		struct history *h = &c->history[i];

		if (!h->count)
			continue;
		h->at = calloc(h->count, sizeof(*h->at));
		h->vectors = calloc(h->count, (size_t)c->members * sizeof(*h->vectors));
		if (!h->at || !h->vectors)
			return -ENOMEM;
	}
	while (left && progress) {
		progress = left = false;
		for (int i = 0; i < c->members; i++) {
			while (c->history[i].done < c->history[i].count && compute_next(c, i))
				progress = true;
			left |= c->history[i].done < c->history[i].count;
		}
	}
	return left ? -ELOOP : 0;
}

uint64_t sr_closure_at(const struct sr_closure *c, int member, uint64_t event, int other)
{
	const uint64_t *vector = vector_at(c, member, event);

	if (member == other)
		return event;
	return vector ? vector[other] : 0;
}
