/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/owned_ranges.h"

#include <stdlib.h>

#include "replay/analysis/log/grow.h"

bool sr_owned_ranges_add(struct sr_owned_ranges *r, uint64_t owner, uint64_t begin, uint64_t end)
{
	struct sr_owned_range *at = sr_grow((void **)&r->list, r->n, &r->room, sizeof(*at));

	if (!at)
		return false;
	*at = (struct sr_owned_range){begin, end, owner};
	r->n++;
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct sr_owned_range *x = a, *y = b;

	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

void sr_owned_ranges_join(struct sr_owned_ranges *r)
{
	size_t kept = 0;

	if (r->n)
		qsort(r->list, r->n, sizeof(*r->list), by_place);
	for (size_t i = 0; i < r->n; i++) {
		struct sr_owned_range *last = kept ? &r->list[kept - 1] : NULL;

		if (last && last->owner == r->list[i].owner && r->list[i].begin <= last->end)
			last->end = last->end > r->list[i].end ? last->end : r->list[i].end;
		else
			r->list[kept++] = r->list[i];
	}
	r->n = kept;
}

bool sr_owned_ranges_meet(const struct sr_owned_ranges *r, uint64_t owner, uint64_t begin, uint64_t end)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const struct sr_owned_range *at = &r->list[middle];

		if (at->owner < owner || (at->owner == owner && at->end <= begin))
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->n && r->list[low].owner == owner && r->list[low].begin < end;
}

void sr_owned_ranges_free(struct sr_owned_ranges *r)
{
	free(r->list);
}
