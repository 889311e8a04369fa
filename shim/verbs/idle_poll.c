/* SPDX-License-Identifier: BSD-2-Clause */
/* See idle_poll.h. */
#include "shim/verbs/idle_poll.h"

#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/compared.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

/* Is the provider's poll, and the count, all that there is to do?  Exposed regions may be there if no call of this kind meets any. */
static bool is_simple(const uint64_t *a)
{
	if (sr_threaded || sr_any_retired || sr_clocks_member || !sr_engine->polled)
		return false;
	return !sr_regions_on ||
	       (!sr_compared_any() && !sr_exposed_touches((void *)a[2], a[1] * sizeof(struct ibv_wc)));
}

void sr_idle_poll_repeats(struct sr_thread *t, const uint64_t *a, uintptr_t site, int error)
{
	const struct ibv_cq *cq = (void *)a[0];

	t->idle.cq = 0;
	if (!is_simple(a))
		return;
	t->idle = (struct sr_idle){
	    .entries = a[1],
	    .wc = a[2],
	    .wc_matters = sr_regions_on ? UINT64_MAX : 0,
	    .site = (void *)site,
	    .error = error,
	    .exposed = sr_regions_on,
	    .engine = sr_engine,
	    .poll = sr_context_original(cq->context, sr_calls[SR_CALL_poll_cq].op_offset, false),
	};
	if (t->idle.poll)
		t->idle.cq = a[0];
}
