/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/unclocked.h"

#include <errno.h>
#include <stdlib.h>

#include "logd/base/opcodes.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/borders.h"

/* Memory that a process without a clock writes. */
struct range {
	uint64_t begin, end;
	size_t owner;
};

struct ranges {
	struct range *list;
	size_t n, room;
};

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

static int by_place(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Ranges of one owner that touch become one. */
static void join(struct ranges *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct range *last = kept ? &r->list[kept - 1] : NULL;

		if (last && last->owner == r->list[i].owner && r->list[i].begin <= last->end)
			last->end = r->list[i].end > last->end ? r->list[i].end : last->end;
		else
			r->list[kept++] = r->list[i];
	}
	r->n = kept;
}

static int find_written(const struct sr_collect *c, struct ranges *r)
{
	for (size_t i = 0; i < c->requests_n; i++) {
		const struct sr_collected_request *q = &c->requests[i];
		struct range *at;

		if (!(sr_op(q->opcode) & SR_OP_CHANGES) || q->to == SR_NO_RANK || sr_collect_has_clock(c, q->rank))
			continue;
		at = sr_grow((void **)&r->list, r->n, &r->room, sizeof(*at));
		if (!at)
			return -ENOMEM;
		*at = (struct range){q->begin, q->end, q->to};
		r->n++;
	}
	if (r->n)
		qsort(r->list, r->n, sizeof(*r->list), by_place);
	join(r);
	return 0;
}

/* Is a byte in one of them? */
static bool meets(const struct ranges *r, const struct sr_unclocked_read *read)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const struct range *m = &r->list[middle];

		if (m->owner < read->owner || (m->owner == read->owner && m->end <= read->begin))
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->n && r->list[low].owner == read->owner && r->list[low].begin < read->end;
}

int sr_collect_end_unclocked(struct sr_collect *c)
{
	struct ranges written = {0};
	int err = c->unclocked_n ? find_written(c, &written) : 0;

	for (size_t i = 0; i < c->unclocked_n && !err; i++) {
		const struct sr_unclocked_read *r = &c->unclocked[i];
		/* Its rank knows what was fetched when the request is over. */
		const uint32_t moment = r->by ? c->requests[r->by - 1].over : r->moment;

		if (moment == SR_NO_MOMENT || (sr_collect_has_clock(c, r->rank) && sr_collect_has_clock(c, r->owner) && !meets(&written, r)))
			continue;
		err = sr_collect_unclocked_value(c, moment, r->rank);
	}
	free(written.list);
	return err;
}
