/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/suggest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct search {
	const struct sr_attribution *a;
	enum sr_suggest_what what;
	size_t rank;
	double share;
	bool *members; /* of the group that is tried */
};

/* Is it one of the bytes that are asked for?  What nobody can be named for is left apart. */
static bool is_asked_for(const struct search *s, const struct sr_origin *o)
{
	if (o->from > s->a->n || o->is_call != (s->what == SR_SUGGEST_CALL))
		return false;
	return s->what == SR_SUGGEST_GROUP ? s->members[o->to] : o->to == s->rank;
}

/* How many ranks the group lacks to explain them; 3: no recorded one would do. */
static int count_missing(const struct search *s, const struct sr_origin *o)
{
	int missing;

	if (o->from == s->a->n)
		return 3;
	missing = !s->members[o->from];
	if (o->memory != SR_NO_RANK && o->memory != o->from)
		missing += !s->members[o->memory];
	return missing;
}

static void measure(const struct search *s, struct sr_suggestion *x)
{
	x->inside = x->entered = 0;
	for (size_t i = 0; i < s->a->origins_n; i++) {
		const struct sr_origin *o = &s->a->origins[i];

		if (!is_asked_for(s, o))
			continue;
		x->entered += o->bytes;
		x->inside += count_missing(s, o) ? 0 : o->bytes;
	}
}

/* A group that nothing enters explains nothing. */
static bool is_enough(const struct search *s, const struct sr_suggestion *x)
{
	return x->entered && (double)x->inside >= s->share * (double)x->entered;
}

/* Is it smaller, or as small and with a larger share? */
static bool is_better(const struct sr_suggestion *x, const struct sr_suggestion *best)
{
	if (!best->n || x->n != best->n)
		return !best->n || x->n < best->n;
	return (double)x->inside * (double)best->entered >
	       (double)best->inside * (double)x->entered;
}

static void take(const struct search *s, const struct sr_suggestion *x, struct sr_suggestion *best)
{
	memcpy(best->members, s->members, s->a->n * sizeof(*best->members));
	best->n = x->n;
	best->inside = x->inside;
	best->entered = x->entered;
}

static void try_all(struct search *s, struct sr_suggestion *best)
{
	for (uint32_t set = 1; set < 1u << s->a->n; set++) {
		struct sr_suggestion x = {.n = (size_t)__builtin_popcount(set)};

		if ((s->rank != SR_NO_RANK && !(set >> s->rank & 1)) || (best->n && x.n > best->n))
			continue;
		for (size_t i = 0; i < s->a->n; i++)
			s->members[i] = set >> i & 1;
		measure(s, &x);
		if (is_enough(s, &x) && is_better(&x, best))
			take(s, &x, best);
	}
}

/* The rank that most of the missing bytes need; n: none. */
static size_t most_needed(const struct search *s)
{
	size_t n = s->a->n, best = n;
	double *need = calloc(n + 1, sizeof(*need));

	for (size_t i = 0; need && i < s->a->origins_n; i++) {
		const struct sr_origin *o = &s->a->origins[i];
		int missing = is_asked_for(s, o) ? count_missing(s, o) : 0;

		if (!missing || missing > 2)
			continue;
		need[o->from] += s->members[o->from] ? 0 : (double)o->bytes / missing;
		if (o->memory != SR_NO_RANK && o->memory != o->from)
			need[o->memory] += s->members[o->memory] ? 0 : (double)o->bytes / missing;
	}
	for (size_t i = 0; need && i < n; i++)
		if (need[i] > 0 && (best == n || need[i] > need[best]))
			best = i;
	free(need);
	return best;
}

static void enlarge(struct search *s, size_t rank, struct sr_suggestion *best)
{
	struct sr_suggestion x = {.n = 1};
	size_t next;

	memset(s->members, 0, s->a->n * sizeof(*s->members));
	s->members[rank] = true;
	for (measure(s, &x); !is_enough(s, &x); measure(s, &x)) {
		next = most_needed(s);
		if (next == s->a->n)
			return;
		s->members[next] = true;
		x.n++;
	}
	if (is_better(&x, best))
		take(s, &x, best);
}

int sr_suggest(const struct sr_attribution *a, enum sr_suggest_what what, size_t rank, double share,
	       struct sr_suggestion *best)
{
	struct search s = {a, what, rank, share, calloc(a->n + 1, sizeof(bool))};

	if (!s.members)
		return -ENOMEM;
	best->n = best->inside = best->entered = 0;
	if (a->n <= SR_SUGGEST_EXACT)
		try_all(&s, best);
	else
		for (size_t i = 0; i < a->n; i++)
			if (rank == SR_NO_RANK || rank == i)
				enlarge(&s, i, best);
	free(s.members);
	return 0;
}
