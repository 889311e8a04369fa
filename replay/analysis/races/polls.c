/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/polls.h"

#include <errno.h>

#include "replay/analysis/log/keymap.h"

static bool is_repeat(const struct sr_collect *c, const struct sr_access *before, const struct sr_access *a)
{
	return before->owner == a->owner && before->begin == a->begin && before->end == a->end && before->site == a->site &&
	       before->place + 1 == a->place && c->requests[before->request - 1].over != SR_NO_MOMENT;
}

void sr_collect_note_poll(struct sr_collect *c, struct sr_collected_request *rq, const struct sr_access *a)
{
	struct sr_collected_queue *q = c->queues[rq->queue];
	struct sr_access *before = q->last_read < c->m->accesses_n ? &c->m->accesses[q->last_read] : NULL;

	if (a->kind != SR_ACCESS_READ || !c->how->group[a->owner])
		return;
	if (before && is_repeat(c, before, a)) {
		rq->is_repeat = true;
		before->is_asked_again = true;
	}
	q->last_read = c->m->accesses_n;
}

void sr_collect_end_polls(struct sr_collect *c)
{
	struct sr_keymap polled = {0}; /* memory */
	uint64_t is;

	for (size_t i = 0; i < c->requests_n; i++) {
		const struct sr_collected_request *rq = &c->requests[i];

		if (rq->is_repeat && (rq->is_changed || !rq->has_value) && sr_keymap_put(&polled, sr_keymap_of_rank(rq->begin, rq->to), 1))
			c->m->is_full = true;
	}
	for (size_t i = 0; c->m->of_kind[SR_ACCESS_READ] && i < c->m->accesses_n; i++) {
		struct sr_access *a = &c->m->accesses[i];
		const struct sr_collected_request *rq;

		if (a->kind != SR_ACCESS_READ)
			continue;
		rq = &c->requests[a->request - 1];
		a->is_news = rq->has_value && !rq->is_same;
		a->is_polled = sr_keymap_get(&polled, sr_keymap_of_rank(a->begin, a->owner), &is);
	}
	sr_keymap_free(&polled);
}

/* What is known of a place. */
#define WAITS   1u
#define GOES_ON 2u

/* Did it find what its rank knew, and was not asked again? */
static bool goes_on(const struct sr_access *a)
{
	return !a->is_asked_again && !a->is_news;
}

int sr_race_find_polls(struct sr_race_model *m, uint64_t (*stack_of)(const void *argument, const struct sr_access *a), const void *argument)
{
	struct sr_keymap places = {0};
	int err = 0;

	for (size_t i = 0; m->of_kind[SR_ACCESS_READ] && i < m->accesses_n && !err; i++) {
		const struct sr_access *a = &m->accesses[i];
		uint64_t stack = a->kind == SR_ACCESS_READ ? stack_of(argument, a) : 0, known = 0;

		if (!stack || !(a->is_polled || goes_on(a)))
			continue;
		sr_keymap_get(&places, stack, &known);
		known |= a->is_polled ? WAITS : 0;
		known |= goes_on(a) ? GOES_ON : 0;
		err = sr_keymap_put(&places, stack, known);
	}
	for (size_t i = 0; places.used && i < m->accesses_n && !err; i++) {
		struct sr_access *a = &m->accesses[i];
		uint64_t known;

		if (a->kind == SR_ACCESS_READ && sr_keymap_get(&places, stack_of(argument, a), &known) && known == WAITS)
			a->is_polled = true;
	}
	sr_keymap_free(&places);
	return err ? -ENOMEM : 0;
}
