/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/process/knowledge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/process/history.h"

/* Where a thread is, and the step in which it came there: it may come in parts (struct sr_log_call). */
struct place {
	uint64_t sn, entered;
	uint32_t fault, stop;
};

/* For the histories of all ranks together. */
#define BUDGET_BYTES (96u << 20)

/* A wait that the current call needs unless another one enforces it. */
struct candidate {
	size_t of;
	struct sr_position position;
	uint32_t flags;
};

struct rank {
	struct sr_position now;
	uint64_t last_event;        /* the highest of its clock */
	struct sr_position *known;  /* by rank */
	struct sr_history *vectors; /* by step: the whole of known */
	struct sr_history *events;  /* by event: struct sr_position */
	struct sr_position *waited; /* by rank: the last position that the hook was called for */
	struct candidate *candidates;
	struct sr_position *enforced; /* of each candidate: what a wait for it enforces, by rank */
	size_t candidates_n;
	struct place *places; /* by thread */
	size_t places_n;
};

struct sr_knowledge {
	size_t n;
	const bool *group;
	int (*order)(void *argument, const struct sr_found_order *o);
	void *argument;
	struct rank *ranks;
	uint64_t weakened;
};

static size_t vectors_kept(size_t ranks)
{
	size_t n = BUDGET_BYTES / (ranks * ranks * sizeof(struct sr_position));

	return n > 16384 ? 16384 : n < 16 ? 16 : n;
}

static size_t events_kept(size_t ranks)
{
	size_t n = BUDGET_BYTES / (ranks * sizeof(struct sr_position));

	return n > 65536 ? 65536 : n;
}

static bool make_rank(struct sr_knowledge *k, struct rank *r)
{
	r->known = calloc(k->n, sizeof(*r->known));
	r->vectors = sr_history_new(k->n * sizeof(*r->known), vectors_kept(k->n));
	r->events = sr_history_new(sizeof(struct sr_position), events_kept(k->n));
	r->waited = calloc(k->n, sizeof(*r->waited));
	r->candidates = calloc(k->n, sizeof(*r->candidates));
	r->enforced = calloc(k->n * k->n, sizeof(*r->enforced));
	return r->known && r->vectors && r->events && r->waited && r->candidates && r->enforced;
}

struct sr_knowledge *sr_knowledge_new(size_t ranks, const bool *group,
				      int (*order)(void *argument, const struct sr_found_order *o),
				      void *argument)
{
	struct sr_knowledge *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	*k =
	    (struct sr_knowledge){.n = ranks, .group = group, .order = order, .argument = argument};
	k->ranks = calloc(ranks + 1, sizeof(*k->ranks));
	for (size_t i = 0; k->ranks && i < ranks; i++) {
		if (make_rank(k, &k->ranks[i]))
			continue;
		sr_knowledge_free(k);
		return NULL;
	}
	if (!k->ranks) {
		free(k);
		return NULL;
	}
	return k;
}

void sr_knowledge_free(struct sr_knowledge *k)
{
	for (size_t i = 0; k && i < k->n; i++) {
		struct rank *r = &k->ranks[i];

		free(r->known);
		sr_history_free(r->vectors);
		sr_history_free(r->events);
		free(r->waited);
		free(r->candidates);
		free(r->enforced);
		free(r->places);
	}
	if (k)
		free(k->ranks);
	free(k);
}

uint64_t sr_knowledge_weakened(const struct sr_knowledge *k)
{
	return k->weakened;
}

/* NULL: no memory. */
static struct place *place_of(struct rank *r, uint32_t thread)
{
	if (thread >= r->places_n) {
		size_t n = 2 * ((size_t)thread + 1);
		struct place *more = realloc(r->places, n * sizeof(*more));

		if (!more)
			return NULL;
		memset(more + r->places_n, 0, (n - r->places_n) * sizeof(*more));
		r->places = more;
		r->places_n = n;
	}
	return &r->places[thread];
}

void sr_knowledge_enter(struct sr_knowledge *k, size_t rank, const struct sr_position *at)
{
	struct rank *r = &k->ranks[rank];
	struct place *p = place_of(r, at->thread);
	const uint64_t step = r->now.step + 1;

	r->now = *at;
	r->now.entered = r->now.step = step;
	if (p && p->entered && p->sn == at->sn && p->fault == at->fault && p->stop == at->stop)
		r->now.entered = p->entered;
	else if (p)
		*p = (struct place){at->sn, r->now.entered, at->fault, at->stop};
}

const struct sr_position *sr_knowledge_now(const struct sr_knowledge *k, size_t rank)
{
	return &k->ranks[rank].now;
}

const struct sr_position *sr_knowledge_of(const struct sr_knowledge *k, size_t rank)
{
	return k->ranks[rank].known;
}

void sr_knowledge_event(struct sr_knowledge *k, size_t rank, uint64_t event)
{
	struct rank *r = &k->ranks[rank];
	struct sr_position *e = sr_history_add(r->events, event);

	r->now.step++;
	*e = r->now;
	if (event > r->last_event)
		r->last_event = event;
}

bool sr_knowledge_has(const struct sr_knowledge *k, size_t rank, uint64_t event)
{
	return k->ranks[rank].last_event >= event;
}

/* NULL: it knew nothing then. */
static const struct sr_position *known_at(const struct rank *r, uint64_t step, bool *exact)
{
	return sr_history_find(r->vectors, step, exact);
}

/* Steps ascend, so the latest entry is what is known. */
static struct candidate *candidate_for(struct rank *r, size_t of)
{
	for (size_t i = 0; i < r->candidates_n; i++)
		if (r->candidates[i].of == of)
			return &r->candidates[i];
	r->candidates[r->candidates_n] = (struct candidate){.of = of};
	return &r->candidates[r->candidates_n++];
}

/* The rank must wait for this position, where `enforces` (NULL: nothing) is true. */
static void add_candidate(struct sr_knowledge *k, struct rank *r, size_t of,
			  const struct sr_position *position, const struct sr_position *enforces,
			  uint32_t flags)
{
	struct candidate *c = candidate_for(r, of);
	struct sr_position *enforced = r->enforced + (size_t)(c - r->candidates) * k->n;

	if (c->position.step >= position->step)
		return;
	c->position = *position;
	c->flags = flags;
	if (enforces)
		memcpy(enforced, enforces, k->n * sizeof(*enforced));
	else
		memset(enforced, 0, k->n * sizeof(*enforced));
}

/* The rank finds out that `other` has reached `position`, with all that it knew there. */
static void learn(struct sr_knowledge *k, size_t rank, size_t other,
		  const struct sr_position *position, uint32_t flags)
{
	struct rank *r = &k->ranks[rank], *o = &k->ranks[other];
	bool exact, exact_before, grouped = k->group[rank] && k->group[other];
	const struct sr_position *theirs = known_at(o, position->step, &exact);
	const struct sr_position *before = known_at(o, position->entered, &exact_before);

	if (r->known[other].step >= position->step)
		return;
	if (!exact || !exact_before || flags & SR_PLAN_WEAKENED)
		k->weakened++;
	if (grouped)
		add_candidate(k, r, other, position, before, flags);
	r->known[other] = *position;
	for (size_t i = 0; theirs && i < k->n; i++) {
		if (i == rank || i == other || theirs[i].step <= r->known[i].step)
			continue;
		r->known[i] = theirs[i];
		/* Otherwise the wait for `other` implies it. */
		if (k->group[rank] && k->group[i] &&
		    (!grouped || !before || before[i].step < theirs[i].step))
			add_candidate(k, r, i, &theirs[i],
				      known_at(&k->ranks[i], theirs[i].entered, &exact),
				      grouped ? flags : flags | SR_PLAN_INDIRECT);
	}
	memcpy(sr_history_add(r->vectors, ++r->now.step), r->known, k->n * sizeof(*r->known));
}

void sr_knowledge_order(struct sr_knowledge *k, size_t rank, size_t other, uint64_t event,
			uint32_t flags)
{
	bool exact;
	const struct sr_position *at = sr_history_find(k->ranks[other].events, event, &exact);

	if (at)
		learn(k, rank, other, at, exact ? flags : flags | SR_PLAN_WEAKENED);
}

void sr_knowledge_message(struct sr_knowledge *k, size_t rank, size_t other,
			  const struct sr_position *sent, uint32_t flags)
{
	if (other != rank)
		learn(k, rank, other, sent, flags);
}

/* Does a wait for another candidate enforce this one? */
static bool follows(const struct sr_knowledge *k, const struct rank *r, const struct candidate *c)
{
	for (size_t i = 0; i < r->candidates_n; i++) {
		const struct sr_position *enforced = r->enforced + i * k->n;

		if (&r->candidates[i] != c && enforced[c->of].step >= c->position.step)
			return true;
	}
	return false;
}

/* Two steps of the other rank may be in one call. */
static bool was_told(const struct rank *r, const struct candidate *c)
{
	const struct sr_position *w = &r->waited[c->of];

	return w->step && w->thread == c->position.thread && w->sn == c->position.sn && w->stop == c->position.stop;
}

int sr_knowledge_flush(struct sr_knowledge *k, size_t rank)
{
	struct rank *r = &k->ranks[rank];
	int err = 0;

	for (size_t i = 0; k->order && i < r->candidates_n && !err; i++) {
		const struct candidate *c = &r->candidates[i];

		if (was_told(r, c) || follows(k, r, c))
			continue;
		r->waited[c->of] = c->position;
		err = k->order(k->argument, &(struct sr_found_order){.rank = rank,
								     .of_rank = c->of,
								     .at = r->now,
								     .of = c->position,
								     .flags = c->flags});
	}
	r->candidates_n = 0;
	return err;
}
