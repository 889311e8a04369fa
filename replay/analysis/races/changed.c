/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/changed.h"

#include <errno.h>

/* Behind all that the rank had done and learned when it called the poll, which is in the rank's order. */
static uint32_t moment_before(struct sr_collect *c, size_t rank, uint32_t poll)
{
	const struct sr_collected_rank *r = &c->ranks[rank];
	uint32_t moment;

	if (c->changes == SR_NO_MOMENT)
		c->changes = sr_model_lane(c->m, true);
	moment = sr_model_moment(c->m, c->changes);
	sr_model_order(c->m, r->before, moment, SR_SURE, false);
	sr_model_order(c->m, moment, poll, SR_SURE, false);
	return moment;
}

int sr_collect_altered(struct sr_collect *c, const struct sr_collected_request *rq, const struct sr_position *at, uint32_t moment)
{
	const uint32_t before = moment_before(c, rq->rank, moment);

	for (uint32_t k = 0; k < rq->accesses_n; k++) {
		struct sr_access a = c->m->accesses[rq->first_access + k];

		if (a.kind != SR_ACCESS_GATHER)
			continue;
		a.kind = SR_ACCESS_CHANGE;
		a.sn = at->sn;
		a.thread = at->thread;
		a.site = 0;
		a.agent = SR_AGENT_CPU | a.rank;
		a.queue = SR_NO_QUEUE;
		a.from = a.until = a.over = before;
		a.post = a.gathered = SR_NO_MOMENT;
		a.key = 0;
		if (!sr_model_access(c->m, a))
			return -ENOMEM;
	}
	return 0;
}
