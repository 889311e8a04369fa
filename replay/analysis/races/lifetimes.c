/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/lifetimes.h"

#include <errno.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/positions.h"

static int release(struct sr_collect *c, const struct sr_released *d, uint32_t key, uint32_t moment)
{
	if (!key || !c->how->group[d->rank])
		return 0;
	return sr_model_access(c->m, (struct sr_access){.begin = d->begin,
							.end = d->end,
							.sn = d->at.sn,
							.site = d->site,
							.owner = (uint32_t)d->rank,
							.rank = (uint32_t)d->rank,
							.thread = d->at.thread,
							.agent = SR_AGENT_CPU | (uint32_t)d->rank,
							.queue = SR_NO_QUEUE,
							.from = moment,
							.until = moment,
							.over = moment,
							.gathered = SR_NO_MOMENT,
							.key = key,
							.closed = SR_NO_MOMENT,
							.kind = SR_ACCESS_RELEASE})
		       ? 0
		       : -ENOMEM;
}

int sr_collect_released(void *argument, const struct sr_released *d)
{
	struct sr_collect *c = argument;
	const uint32_t moment = sr_collect_moment(c, d->rank, &d->at, false);
	int err = release(c, d, d->lkey, moment);

	return err || d->rkey == d->lkey ? err : release(c, d, d->rkey, moment);
}

int sr_collect_closed(void *argument, const struct sr_closed *d)
{
	struct sr_collect *c = argument;
	const uint64_t key = sr_collected_queue_key(d->rank, d->queue);
	struct sr_collected_closing *added = sr_grow((void **)&c->closings, c->closings_n, &c->closings_room, sizeof(*added));
	uint64_t before = 0;

	sr_keymap_get(&c->closing_places, key, &before);
	if (!added || sr_keymap_put(&c->closing_places, key, c->closings_n + 1))
		return -ENOMEM;
	*added = (struct sr_collected_closing){.moment = sr_collect_moment(c, d->rank, &d->at, false),
					       .before = (uint32_t)before,
					       .is_over = d->is_over};
	c->closings_n++;
	return 0;
}

/* The first closing behind this moment: moments are numbered as they can have happened. */
static uint32_t closing_after(const struct sr_collect *c, uint64_t queue, uint32_t moment, bool is_over)
{
	uint32_t found = SR_NO_MOMENT;
	uint64_t at = 0;

	if (!sr_keymap_get(&c->closing_places, queue, &at))
		return found;
	for (; at && c->closings[at - 1].moment > moment; at = c->closings[at - 1].before)
		if (c->closings[at - 1].is_over || !is_over)
			found = c->closings[at - 1].moment;
	return found;
}

uint32_t sr_collect_own_closing(const struct sr_collect *c, const struct sr_collected_request *rq)
{
	return closing_after(c, c->queues[rq->queue]->key, rq->r.post, true);
}

uint32_t sr_collect_incoming_closing(const struct sr_collect *c, const struct sr_collected_request *rq)
{
	return rq->other_end && rq->to != SR_NO_RANK
		       ? closing_after(c, sr_collected_queue_key(rq->to, rq->other_end), rq->r.post, false)
		       : SR_NO_MOMENT;
}
