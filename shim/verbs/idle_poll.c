/* SPDX-License-Identifier: BSD-2-Clause */
/* See idle_poll.h. */
#include "shim/verbs/idle_poll.h"

#include "shim/core/run_token.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/compared.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"
#include "shim/verbs/single.h"

/* Is the provider's poll, and the record, all that there is to do?  Exposed regions may be there if no call of this kind meets any. */
static bool is_simple(const uint64_t *a)
{
	if ((sr_threaded && !sr_serial) || sr_cq_is_extended((const struct ibv_cq *)a[0]) || sr_any_retired || sr_clocks_member || sr_single_completions || !sr_engine->polled)
		return false;
	return !sr_regions_on ||
	       (!sr_compared_any() && !sr_exposed_touches((void *)a[2], a[1] * sizeof(struct ibv_wc)));
}

struct sr_idle *sr_idle_poll_place(struct sr_thread *t, const uint64_t *a, uintptr_t site)
{
	struct sr_idle_polls *polls = &t->idle;
	struct sr_idle *idle;

	for (idle = polls->of; idle < polls->of + SR_IDLE_POLLS; idle++)
		if (idle->cq == a[0] && (uintptr_t)idle->site == site)
			return idle;
	return &polls->of[polls->n++ % SR_IDLE_POLLS];
}

void sr_idle_poll_note(struct sr_thread *t, struct sr_idle *idle, const uint64_t *a, int error)
{
	struct sr_idle_polls *polls = &t->idle;
	const struct ibv_cq *cq = (void *)a[0];

	if (polls->sn != t->sn)
		polls->since++;
	polls->sn = t->sn;
	polls->last = idle;
	idle->entries = a[1];
	idle->wc = a[2];
	idle->wc_matters = sr_regions_on ? UINT64_MAX : 0;
	idle->error = error;
	idle->exposed = sr_regions_on;
	idle->since = polls->since;
	idle->poll = sr_context_original(cq->context, sr_calls[SR_CALL_poll_cq].op_offset, false);
	idle->engine = idle->poll && is_simple(a) ? sr_engine : NULL;
}

NO_VECTORS uint64_t sr_idle_polls_close(struct sr_thread *t, struct sr_cycle_payload *p)
{
	struct sr_cycle *c = &t->idle.cycle;
	uint64_t rest = t->repeats;
	uint8_t period = c->period ? c->period : c->n;

	t->repeats = 0;
	__builtin_memset(p, 0, sizeof(*p));
	if (c->n) {
		p->calls = c->period == 1 ? 1 : (uint32_t)rest;
		p->period = period;
		for (unsigned int i = 0; i < period; i++)
			p->back[i] = (uint8_t)(t->idle.kept - c->of[i]->kept + 1);
		rest -= p->calls;
	}
	c->n = c->period = 0;
	return rest;
}
