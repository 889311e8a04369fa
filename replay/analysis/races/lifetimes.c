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

/* At its first closing a connection takes no more requests. */
static int end_closes(struct sr_collect *c, size_t end, uint32_t moment)
{
	uint64_t earlier;

	if (end == SR_NO_END || sr_keymap_get(&c->end_closings, end + 1, &earlier))
		return 0;
	return sr_keymap_put(&c->end_closings, end + 1, moment);
}

int sr_collect_closed(void *argument, const struct sr_closed *d)
{
	struct sr_collect *c = argument;
	const uint64_t key = sr_collected_queue_key(d->rank, d->queue);
	const uint32_t moment = sr_collect_moment(c, d->rank, &d->at, false);
	struct sr_collected_closing *added;
	uint64_t before = 0;

	if (end_closes(c, d->end, moment))
		return -ENOMEM;
	/* In the other states its own requests may go on. */
	if (!d->is_over)
		return 0;
	added = sr_grow((void **)&c->closings, c->closings_n, &c->closings_room, sizeof(*added));
	sr_keymap_get(&c->closing_places, key, &before);
	if (!added || sr_keymap_put(&c->closing_places, key, c->closings_n + 1))
		return -ENOMEM;
	*added = (struct sr_collected_closing){.moment = moment, .before = (uint32_t)before};
	c->closings_n++;
	return 0;
}

/* The first end of the queue pair behind the post: both are of one rank, whose moments are numbered in their order. */
uint32_t sr_collect_own_closing(const struct sr_collect *c, const struct sr_collected_request *rq)
{
	uint32_t found = SR_NO_MOMENT;
	uint64_t at = 0;

	sr_keymap_get(&c->closing_places, c->queues[rq->queue]->key, &at);
	for (; at && c->closings[at - 1].moment > rq->r.post; at = c->closings[at - 1].before)
		found = c->closings[at - 1].moment;
	return found;
}

/*
 * Whatever the moments' numbers: where nothing orders a post before the closing at its target, the closing may have the lower one.
 * Behind it the request can do nothing there all the same.
 */
uint32_t sr_collect_incoming_closing(const struct sr_collect *c, const struct sr_collected_request *rq)
{
	uint64_t moment;

	return rq->to_end != SR_NO_END && sr_keymap_get(&c->end_closings, rq->to_end + 1, &moment) ? (uint32_t)moment : SR_NO_MOMENT;
}
