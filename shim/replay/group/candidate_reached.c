/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * candidate_reached.c: up to which of its writes to a value a member had come, told by what is in memory.
 *
 * A member that waits for nobody may be thousands of writes ahead, and short values, which the trace has, say of no write that it
 * has landed.  But what is in memory now is what some of its writes came to: the earliest write that may be new in the value that is
 * looked for comes behind them.
 */
#include "shim/replay/group/candidates.h"

#include <string.h>

#include "logd/base/page.h"
#include "shim/memory/room.h"
#include "shim/replay/group/group.h"
#include "shim/replay/group/landed_writes.h"
#include "shim/verbs/regions.h"

#define SCANNED (1u << 20)
#define BYTES (64ull << 20) /* so many are compared */

/* Mapped, because the library's image has to stay small. */
static struct room {
	uint64_t number[SCANNED]; /* of the writes, the latest first */
	uint8_t bytes[PAGE];	  /* what the value is with some of them */
} *room;

/* The writes that are not known to have landed.  0: they are of several members, or not all of them are simple. */
static uint32_t list_writes(const struct sr_exposed_value *v)
{
	uint64_t number = sr_landed_writes_into(sr_page_down(v->addr)), from = v->addr % PAGE;
	const struct sr_page_link *l;
	uint32_t n = 0;
	int32_t member = -1;

	for (; (l = sr_page_link(sr_landed_writes(), number)) && !sr_landed_before(number) && n < SCANNED; number = l->before) {
		struct sr_group_write w;

		if (l->from >= from + v->length || from >= l->end || !sr_history_read(sr_group_self, number, &w, 1))
			continue;
		if (w.kind != SR_GROUP_BYTES || (member >= 0 && w.origin.member != member))
			return 0;
		member = w.origin.member;
		room->number[n++] = number;
	}
	return n;
}

static uint32_t count_differing(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	uint32_t differing = 0;

	for (uint32_t i = 0; i < n; i++)
		differing += a[i] != b[i];
	return differing;
}

/* Lays the write over the value's bytes; returns how many more of these are not what is in memory now. */
static int32_t lay_over(const struct sr_exposed_value *v, const uint8_t *now, uint64_t number, uint64_t *bytes)
{
	struct sr_group_write w;
	struct sr_written x;
	uint32_t before;
	uint8_t *to;

	if (!sr_history_read(sr_group_self, number, &w, 1))
		return 0;
	x = sr_written_into(v, &w, number);
	to = room->bytes + x.from;
	*bytes += x.length;
	before = count_differing(to, now + x.from, x.length);
	sr_history_bytes(sr_group_self, x.at, to, x.length);
	return (int32_t)(count_differing(to, now + x.from, x.length) - before);
}

/* In how many of the writes, from the first one on, memory is as it is now; the largest number. */
static uint32_t count_reached(const struct sr_exposed_value *v, uint32_t n)
{
	const uint8_t *now = sr_exposed_backing((void *)v->addr);
	uint64_t bytes = 0;
	int32_t differing = 0;
	uint32_t reached = 0;

	memcpy(room->bytes, now, v->length);
	for (uint32_t i = 0; i < n && bytes < BYTES; i++) {
		differing += lay_over(v, now, room->number[n - 1 - i], &bytes);
		if (!differing)
			reached = i + 1;
	}
	return reached;
}

bool sr_candidates_reached(struct sr_candidates *s)
{
	uint32_t n, first, last;

	if (!room)
		room = sr_map_zeroed(sizeof(*room));
	if (!room || s->v->length > PAGE)
		return false;
	n = list_writes(s->v);
	if (!n)
		return false;
	first = count_reached(s->v, n);
	if (first == n)
		return false;
	last = n - first < WRITES ? n : first + WRITES;
	s->first = room->number[n - 1 - first];
	s->last = room->number[n - last];
	return true;
}
