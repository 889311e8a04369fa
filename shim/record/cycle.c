/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/cycle.h"

#include "shim/core/thread.h"
#include "shim/record/emit.h"
#include "shim/verbs/idle_poll.h"

bool sr_cycle_may_repeat(const struct sr_thread *t, struct sr_idle *idle)
{
	return idle->size && t->idle.kept - idle->kept < SR_KEPT && t->ring.head - idle->position <= SR_CYCLE_WITHIN && !sr_stamps_on;
}

/* Of the polls that are noted: after how many do they come again? */
static uint8_t find_period(const struct sr_cycle *c)
{
	uint8_t period = 1, i = 1;

	while (i < c->n) {
		if (c->of[i] == c->of[i - period]) {
			i++;
			continue;
		}
		period++;
		i = period;
	}
	return period;
}

static void find_cycle(struct sr_cycle *c)
{
	c->period = find_period(c);
	c->at = c->n % c->period;
	/* One poll is counted by a REPEAT. */
	c->most = c->period == 1 ? UINT64_MAX : SR_CYCLE_CALLS;
}

/* The cycle is over, or there is none. */
static void begin(struct sr_thread *t, struct sr_idle *idle)
{
	struct sr_cycle *c = &t->idle.cycle;

	*c = (struct sr_cycle){.of = {idle}};
	if (t->last.len && t->idle.last_is_kept && t->idle.kept == idle->kept) {
		c->period = 1;
		c->most = UINT64_MAX;
	} else {
		c->n = 1;
		t->last.len = 0; /* another call that looks like it is none of this cycle */
	}
	t->repeats = 1;
}

static bool is_noted(struct sr_thread *t, struct sr_idle *idle)
{
	struct sr_cycle *c = &t->idle.cycle;

	if (!t->repeats || c->period || !c->n || c->n == SR_CYCLE_PERIOD)
		return false;
	c->of[c->n++] = idle;
	t->repeats++;
	if (c->n == SR_CYCLE_PERIOD)
		find_cycle(c);
	return true;
}

void sr_cycle_add(struct sr_thread *t, struct sr_idle *idle)
{
	struct sr_idle *last = t->idle.last;

	if (last)
		last->follower = idle;
	t->idle.last = idle;
	if (sr_idle_poll_goes_on(t, idle)) {
		sr_idle_poll_count(t);
		return;
	}
	if (is_noted(t, idle))
		return;
	sr_flush_repeats(t);
	begin(t, idle);
}
