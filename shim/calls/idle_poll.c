/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/idle_poll.h"

uint64_t sr_poll_again_watched(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	struct sr_made_poll made = {.before = sr_enter(t)};

	if (sr_regions_on)
		sr_regions_poll_begins();
	if (!sr_poll_is_idle(t, sr_calls[n].idle, a, &made))
		return sr_engine->poll(t, n, a, site, &made);
	sr_poller_pauses(t->received.poller);
	sr_clocks_sample();
	/* The sample, or the observation of exposed memory, may have written a record. */
	if (!t->idle.queue)
		return sr_engine->poll(t, n, a, site, &made);
	/* Before the observation at the return, whose record comes behind that of the polls. */
	t->repeats++;
	t->sn++;
	if (sr_regions_on)
		sr_regions_poll_ends();
	sr_poll_leave(t, &made);
	return made.result;
}
