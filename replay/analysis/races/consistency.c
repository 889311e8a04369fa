/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/consistency.h"

#include <errno.h>
#include <stdlib.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/log/grow.h"

/* Loads and stores of which it is not known when they came, or whether they did. */
#define IN_DOUBT (SR_DOUBT_SAMPLED | SR_DOUBT_THREADS | SR_DOUBT_REPLAY)

/* --------------------------------------------------------------- the program's order */

static bool is_in_program(const struct sr_access *a)
{
	switch (a->kind) {
	case SR_ACCESS_WRITE:
	case SR_ACCESS_READ:
	case SR_ACCESS_ATOMIC:
		return true;
	case SR_ACCESS_LOAD:
	case SR_ACCESS_STORE:
		return !a->request && !(a->doubts & IN_DOUBT);
	default:
		return false;
	}
}

static uint32_t post_of(const struct sr_access *a)
{
	return a->request ? a->post : a->from;
}

bool sr_is_same_thread(const struct sr_access *a, const struct sr_access *b)
{
	return a->rank == b->rank && a->thread == b->thread;
}

static int by_program(const void *x, const void *y, void *argument)
{
	const struct sr_access *all = argument, *a = &all[*(const uint32_t *)x], *b = &all[*(const uint32_t *)y];

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (post_of(a) != post_of(b))
		return post_of(a) < post_of(b) ? -1 : 1;
	if (a->request != b->request)
		return a->request < b->request ? -1 : 1;
	return (a > b) - (a < b);
}

bool sr_program_order_make(struct sr_program_order *p, const struct sr_race_model *m)
{
	*p = (struct sr_program_order){.at = malloc((m->accesses_n + 1) * sizeof(*p->at)),
				       .place = malloc((m->accesses_n + 1) * sizeof(*p->place))};
	if (!p->at || !p->place)
		return false;
	for (size_t i = 0; i < m->accesses_n; i++) {
		p->place[i] = SR_NO_MOMENT;
		if (is_in_program(&m->accesses[i]))
			p->at[p->n++] = (uint32_t)i;
	}
	if (p->n)
		qsort_r(p->at, p->n, sizeof(*p->at), by_program, m->accesses);
	for (size_t i = 0; i < p->n; i++)
		p->place[p->at[i]] = (uint32_t)i;
	return true;
}

void sr_program_order_free(struct sr_program_order *p)
{
	free(p->at);
	free(p->place);
}

static bool is_known_over(const struct sr_access *a, const struct sr_access *b)
{
	return a->over != SR_NO_MOMENT && a->over <= post_of(b);
}

uint8_t sr_cures_of(const struct sr_access *a, const struct sr_access *b)
{
	uint8_t cures = SR_CURE_WAIT;

	/* The order of a CPU's own accesses is left to others' tools. */
	if (!a->request || is_known_over(a, b))
		return 0;
	if (!b->request || a->queue == SR_NO_QUEUE || b->queue == SR_NO_QUEUE)
		return cures;
	if (a->queue != b->queue) {
		/* One queue pair leads to one rank, and WRITEs wait for no READ on it. */
		if (a->owner == b->owner && !(sr_op(a->opcode) & SR_OP_SCATTERS) && a->from == a->until)
			cures |= SR_CURE_SAME_QUEUE;
		return cures;
	}
	if (!sr_race_is_queue_ordered(a, b))
		return cures | (sr_op(a->opcode) & SR_OP_SCATTERS ? SR_CURE_FENCE : 0);
	/* It lands later than the queue pair is through with it, which an atomic behind it waits for. */
	return a->from != a->until && b->kind != SR_ACCESS_ATOMIC ? cures : 0;
}

/* ----------------------------------------------------------------------- cycles */

static bool is_same_from(const struct sr_cycle *c, const struct sr_cycle *d, uint32_t turn, sr_access_origin origin, void *argument)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct sr_access *a = &c->at[i], *b = &d->at[(i + turn) % d->n];

		if (a->kind != b->kind || c->order[i] != d->order[(i + turn) % d->n] || origin(argument, a) != origin(argument, b))
			return false;
	}
	return true;
}

/* The same, from whichever access on. */
static bool is_same(const struct sr_cycle *c, const struct sr_cycle *d, sr_access_origin origin, void *argument)
{
	if (c->is_observed != d->is_observed || c->n != d->n)
		return false;
	for (uint32_t turn = 0; turn < c->n; turn++)
		if (is_same_from(c, d, turn, origin, argument))
			return true;
	return false;
}

int sr_consistency_add(struct sr_consistency *s, const struct sr_cycle *c, sr_access_origin origin, void *argument)
{
	struct sr_cycle *at;

	for (size_t i = 0; i < s->n; i++)
		if (is_same(&s->cycles[i], c, origin, argument)) {
			s->cycles[i].count++;
			return 0;
		}
	at = sr_grow((void **)&s->cycles, s->n, &s->room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	*at = *c;
	at->count = 1;
	s->n++;
	return 0;
}

void sr_consistency_free(struct sr_consistency *s)
{
	free(s->cycles);
}
