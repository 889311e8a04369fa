/* SPDX-License-Identifier: BSD-2-Clause */
/* explained.c: which access it was that changed what a request sends (changed.h). */
#include "replay/analysis/races/races.h"

/* These doubt whether, or when, an access changed the bytes: that they changed in between is known. */
#define ANSWERED (SR_DOUBT_THREADS | SR_DOUBT_REPLAY | SR_DOUBT_OUTSIDE | SR_DOUBT_SHARED | SR_DOUBT_CUT | SR_DOUBT_UNCLOCKED | SR_DOUBT_END)

static bool is_change(const struct sr_race *r)
{
	return r->a.kind == SR_ACCESS_CHANGE || r->b.kind == SR_ACCESS_CHANGE;
}

/* Does a race have the gather that `change` has, in the same bytes? */
static bool has_gather_of(const struct sr_race *r, const struct sr_race *change)
{
	const bool is_a = change->a.kind == SR_ACCESS_GATHER;
	const struct sr_access *gather = is_a ? &change->a : &change->b;
	const uint64_t stack = is_a ? change->stack_a : change->stack_b;

	if (r->class != SR_RACE_IN_FLIGHT || is_change(r) || r->a.owner != gather->owner)
		return false;
	return (r->a.kind == SR_ACCESS_GATHER && r->a.site == gather->site && r->stack_a == stack) ||
	       (r->b.kind == SR_ACCESS_GATHER && r->b.site == gather->site && r->stack_b == stack);
}

static void observe(struct sr_race *r)
{
	if (r->evidence >= SR_RACE_OBSERVED || r->doubts & ~ANSWERED)
		return;
	r->doubts = 0;
	r->evidence = SR_RACE_OBSERVED;
	r->severity = sr_race_severity_of(r);
}

static bool explain(struct sr_races *r, const struct sr_race *change)
{
	bool is_explained = false;

	for (size_t i = 0; i < r->n; i++) {
		if (!has_gather_of(&r->races[i], change))
			continue;
		is_explained = true;
		if (change->evidence == SR_RACE_OBSERVED)
			observe(&r->races[i]);
	}
	return is_explained;
}

void sr_races_explain_changes(struct sr_races *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct sr_race s = r->races[i];

		if (is_change(&s) && explain(r, &s))
			continue;
		r->races[kept++] = s;
	}
	r->n = kept;
}
