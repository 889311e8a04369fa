/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/stamps.h"

#include <string.h>

static uint64_t time_of(const struct sr_stamps *s)
{
	double seconds = s->sync.hz ? (double)(s->ticks - s->sync.ticks) / (double)s->sync.hz : 0;

	return s->sync.time + (uint64_t)(seconds * 1e9);
}

/* The rate was measured over little, so that the next comparison may find an earlier time. */
static void advance(struct sr_stamps *s, uint64_t time)
{
	if (time > s->time)
		s->time = time;
}

bool sr_stamps_take(struct sr_stamps *s, const struct sr_entry *e)
{
	struct sr_stamp_delta delta;
	struct sr_stamp_time time;

	if (e->kind != SR_REC_STAMP)
		return false;
	if (e->size == sizeof(delta)) {
		memcpy(&delta, e->payload, sizeof(delta));
		s->ticks += delta.ticks;
		if (s->sync.time)
			advance(s, time_of(s));
	} else if (e->size == sizeof(time)) {
		memcpy(&time, e->payload, sizeof(time));
		s->is_coarse = true;
		advance(s, time.time);
	} else if (e->size == sizeof(s->sync)) {
		memcpy(&s->sync, e->payload, sizeof(s->sync));
		s->ticks = s->sync.ticks;
		advance(s, s->sync.time);
	} else {
		return false;
	}
	return true;
}
