/* SPDX-License-Identifier: BSD-2-Clause */
/* See idle_poll.h. */
#include "shim/verbs/idle_poll.h"

#include <string.h>

#include "shim/core/run_token.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/compared.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

/* Is the provider's poll, and the record, all that there is to do?  Exposed regions may be there if no call of this kind meets any. */
static bool is_simple(const uint64_t *a)
{
	if ((sr_threaded && !sr_serial) || sr_any_retired || sr_clocks_member || !sr_engine->polled)
		return false;
	return !sr_regions_on ||
	       (!sr_compared_any() && !sr_exposed_touches((void *)a[2], a[1] * sizeof(struct ibv_wc)));
}

/* An older one of the same is not found any more. */
static struct sr_idle *next_place(struct sr_idle_polls *polls, uint64_t cq, uintptr_t site)
{
	for (uint32_t i = 0; i < polls->n && i < SR_IDLE_POLLS; i++)
		if (polls->of[i].cq == cq && (uintptr_t)polls->of[i].site == site)
			return &polls->of[i];
	return &polls->of[polls->n++ % SR_IDLE_POLLS];
}

void sr_idle_poll_note(struct sr_thread *t, const uint64_t *a, uintptr_t site, int error, const struct sr_buf *record)
{
	struct sr_idle_polls *polls = &t->idle;
	const struct ibv_cq *cq = (void *)a[0];
	uint64_t (*poll)(uint64_t cq, uint64_t entries, uint64_t wc);
	struct sr_idle *idle;

	if (polls->sn + 1 != t->sn)
		polls->n = 0;
	polls->last = NULL;
	if (record->len > SR_IDLE_BYTES || !is_simple(a))
		return;
	poll = sr_context_original(cq->context, sr_calls[SR_CALL_poll_cq].op_offset, false);
	if (!poll)
		return;
	idle = next_place(polls, a[0], site);
	*idle = (struct sr_idle){
	    .cq = a[0],
	    .entries = a[1],
	    .wc = a[2],
	    .wc_matters = sr_regions_on ? UINT64_MAX : 0,
	    .site = (void *)site,
	    .error = error,
	    .exposed = sr_regions_on,
	    .engine = sr_engine,
	    .poll = poll,
	    .size = (uint32_t)record->len,
	};
	memcpy(idle->record, record->p, record->len);
	polls->last = idle;
	polls->sn = t->sn;
}
