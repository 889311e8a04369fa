/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/events.h"

#include <errno.h>

#include "replay/analysis/log/large.h"

/*
 * Nearly all numbers ascend, so that the events are their own index.  One that does not is found by a map, and has the highest
 * number so far in its place.
 */
int sr_collected_event_add(struct sr_collected_rank *r, uint64_t number, struct sr_collected_event e)
{
	struct sr_collected_event *at = sr_large_grow((void **)&r->events, r->events_n, &r->events_room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	e.number = number;
	if (r->events_n && number <= r->events[r->events_n - 1].number) {
		e.number = r->events[r->events_n - 1].number;
		if (sr_keymap_put(&r->late_events, number, r->events_n))
			return -ENOMEM;
	}
	*at = e;
	r->events_n++;
	return 0;
}

/* So far from the end, in steps that double, that it is behind: most questions are about the recent past. */
static size_t begin_search(const struct sr_collected_rank *r, uint64_t number, size_t *high)
{
	size_t step = 1, low = r->events_n;

	for (*high = low; low && r->events[low - 1].number >= number; step *= 2) {
		*high = low - 1;
		low = low > step ? low - step : 0;
	}
	return low;
}

bool sr_collected_event_find(const struct sr_collected_rank *r, uint64_t number, size_t *place)
{
	size_t high, low = begin_search(r, number, &high);
	uint64_t late;

	if (r->late_events.used && sr_keymap_get(&r->late_events, number, &late)) {
		*place = (size_t)late;
		return true;
	}
	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (r->events[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	*place = low;
	return low < r->events_n && r->events[low].number == number;
}
