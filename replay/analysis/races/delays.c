/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delays.c: cycles of two threads that other runs may have: the first thread accesses x and then y, the second one y and
 * then x, and nothing keeps an access of one of them behind the one before it.
 *
 * Each begins with a pair that the search for races has found: nothing orders the first thread's access to x and the second one's.
 */
#include <errno.h>

#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/conflicts.h"
#include "replay/analysis/races/consistency.h"

/* Of the pairs of two places so many are looked at, of the accesses behind one and before the other so many, and of all moments so many. */
#define ASKED_MOST   8
#define BEHIND_MOST  64
#define BEFORE_MOST  512
#define MOMENTS_MOST 4000000000u

struct search {
	struct sr_consistency *s;
	const struct sr_race_run *run;
	struct sr_race_doubts *doubts;
	struct sr_program_order order;
	sr_access_origin origin;
	void *argument;
	uint64_t moments; /* gone through */
};

static const struct sr_access *access_at(const struct search *q, size_t place)
{
	return &q->run->model.accesses[q->order.at[place]];
}

static bool overlaps(const struct sr_access *a, const struct sr_access *b)
{
	return a->owner == b->owner && a->begin < b->end && b->begin < a->end;
}

static int add(const struct search *q, const struct sr_access *const at[4])
{
	struct sr_cycle c = {.n = 4,
			     .order = {SR_CYCLE_PROGRAM, SR_CYCLE_CONFLICT, SR_CYCLE_PROGRAM, SR_CYCLE_CONFLICT},
			     .cures = {sr_cures_of(at[0], at[1]), 0, sr_cures_of(at[2], at[3])}};

	for (int i = 0; i < 4; i++)
		c.at[i] = *at[i];
	return sr_consistency_add(q->s, &c, q->origin, q->argument);
}

/* The second thread's access to y nearest before its one to x; NULL: there is none. */
static const struct sr_access *find_before(struct search *q, const struct sr_access *x, const struct sr_access *y,
					   const struct sr_access *last, size_t place)
{
	for (size_t k = 0; k < BEFORE_MOST && place-- > 0; k++) {
		const struct sr_access *b = access_at(q, place);

		if (!sr_is_same_thread(b, last))
			return NULL;
		if (!sr_accesses_conflict(y, b) || overlaps(b, x))
			continue;
		q->moments += q->run->model.moments_n;
		return sr_race_comes_before(q->doubts, b, y) ? NULL : b;
	}
	return NULL;
}

/* x: of the first thread; last: of the second one. */
static int look(struct search *q, uint32_t x_number, uint32_t last_number)
{
	const struct sr_access *x = &q->run->model.accesses[x_number], *last = &q->run->model.accesses[last_number];
	const uint32_t from = q->order.place[x_number], end = q->order.place[last_number];
	int ret = 0;

	if (from == SR_NO_MOMENT || end == SR_NO_MOMENT || x->rank == last->rank || last->is_polled)
		return 0;
	for (size_t i = from + 1; i < q->order.n && i <= (size_t)from + BEHIND_MOST && !ret; i++) {
		const struct sr_access *y = access_at(q, i), *b;

		if (!sr_is_same_thread(x, y))
			break;
		/* Who waits for something newer goes on waiting. */
		if (overlaps(x, y) || y->is_polled || !sr_cures_of(x, y))
			continue;
		b = find_before(q, x, y, last, end);
		if (b)
			ret = add(q, (const struct sr_access *const[]){x, y, b, last});
	}
	return ret;
}

static bool may_ask(struct search *q, struct sr_keymap *asked, const struct sr_race_pair *p)
{
	const struct sr_access *all = q->run->model.accesses;
	const uint64_t key = q->origin(q->argument, &all[p->a]) * 31 + q->origin(q->argument, &all[p->b]);
	uint64_t n = 0;

	if (p->is_doubtful)
		return false;
	sr_keymap_get(asked, key, &n);
	if (n >= ASKED_MOST || q->moments > MOMENTS_MOST) {
		q->s->not_asked++;
		return false;
	}
	return !sr_keymap_put(asked, key, n + 1);
}

int sr_consistency_possible(struct sr_consistency *s, const struct sr_race_run *run, struct sr_race_doubts *doubts,
			    const struct sr_race_pairs *pairs, sr_access_origin origin, void *argument)
{
	struct search q = {.s = s, .run = run, .doubts = doubts, .origin = origin, .argument = argument};
	struct sr_keymap asked = {0};
	int ret = sr_program_order_make(&q.order, &run->model) ? 0 : -ENOMEM;

	for (size_t i = 0; i < pairs->n && !ret; i++) {
		const struct sr_race_pair *p = &pairs->all[i];

		if (!may_ask(&q, &asked, p))
			continue;
		ret = look(&q, p->a, p->b);
		if (!ret)
			ret = look(&q, p->b, p->a);
	}
	sr_keymap_free(&asked);
	sr_program_order_free(&q.order);
	return ret;
}
