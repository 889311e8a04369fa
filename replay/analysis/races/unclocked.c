/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/unclocked.h"

#include <errno.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/borders.h"
#include "replay/analysis/races/owned_ranges.h"

bool sr_collect_has_clock(const struct sr_collect *c, size_t rank)
{
	return c->how->links->ranks[rank].member >= 0;
}

int sr_collect_unclocked_read(struct sr_collect *c, size_t rank, uint32_t moment, size_t owner, uint64_t begin, uint64_t end, uint64_t by)
{
	struct sr_unclocked_read *r;

	if (c->are_all_clocked || !c->run->has_clocks)
		return 0;
	r = sr_grow((void **)&c->unclocked, c->unclocked_n, &c->unclocked_room, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct sr_unclocked_read){begin, end, by, rank, owner, moment};
	c->unclocked_n++;
	return 0;
}

/* Memory that a process without a clock writes. */
static int find_written(const struct sr_collect *c, struct sr_owned_ranges *r)
{
	for (size_t i = 0; i < c->requests_n; i++) {
		const struct sr_collected_request *q = &c->requests[i];

		if (!(sr_op(q->opcode) & SR_OP_CHANGES) || q->to == SR_NO_RANK || sr_collect_has_clock(c, q->rank))
			continue;
		if (!sr_owned_ranges_add(r, q->to, q->begin, q->end))
			return -ENOMEM;
	}
	sr_owned_ranges_join(r);
	return 0;
}

/* Clocks tell whose bytes it can have got, unless somebody without one writes there. */
static bool is_told_by_clocks(const struct sr_collect *c, const struct sr_unclocked_read *r, const struct sr_owned_ranges *written)
{
	return sr_collect_has_clock(c, r->rank) && sr_collect_has_clock(c, r->owner) &&
	       !sr_owned_ranges_meet(written, r->owner, r->begin, r->end);
}

int sr_collect_end_unclocked(struct sr_collect *c)
{
	struct sr_owned_ranges written = {0};
	int err = c->unclocked_n ? find_written(c, &written) : 0;

	for (size_t i = 0; i < c->unclocked_n && !err; i++) {
		const struct sr_unclocked_read *r = &c->unclocked[i];
		/* Its rank knows what was fetched when the request is over. */
		const uint32_t moment = r->by ? c->requests[r->by - 1].over : r->moment;

		if (moment != SR_NO_MOMENT && !is_told_by_clocks(c, r, &written))
			err = sr_collect_unclocked_value(c, moment, r->rank);
	}
	sr_owned_ranges_free(&written);
	return err;
}
