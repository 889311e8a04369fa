/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/idle_poll.h"

uint64_t sr_poll_again_watched(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	const struct sr_call_desc *d = &sr_calls[n];
	struct sr_made_poll made = {.before = sr_enter(t)};
	struct sr_pinned pinned;

	sr_pinned_none(&pinned);
	if (sr_regions_on)
		sr_regions_call_begins(d, a, &pinned);
	if (!sr_poll_is_idle(t, d->idle, a, &made))
		return sr_engine->poll(t, n, a, site, &made);
	sr_poll_ends(&t->received);
	sr_clocks_sample();
	/* The sample, or the observation of exposed memory, may have written a record. */
	if (!t->idle.queue)
		return sr_engine->poll(t, n, a, site, &made);
	if (!sr_regions_on)
		return sr_poll_count(t, &made);
	t->repeats++;
	t->sn++;
	sr_regions_call_ends(&pinned);
	sr_leave_call(t, made.before);
	*t->error = made.error;
	return made.result;
}
