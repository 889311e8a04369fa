/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/candidates.h"

#include "logd/base/page.h"
#include "shim/memory/room.h"
#include "shim/replay/group/group.h"
#include "shim/replay/group/landed_writes.h"

#define OLD 64 /* writes to the value that have landed */

/* Mapped, because the library's image has to stay small. */
static struct room {
	struct sr_writer writer[WRITERS];
	struct sr_written own[OWN];
	uint8_t sequence[SEQUENCE];
} *room;

static struct sr_writer *writer_of(struct sr_candidates *s, const struct sr_group_origin *o)
{
	for (uint32_t i = 0; i < s->writers; i++) {
		struct sr_writer *w = &s->writer[i];

		if (w->member != o->member || (s->by_queue && w->queue != o->queue))
			continue;
		s->queues = s->queues || w->queue != o->queue;
		return w;
	}
	if (s->writers == WRITERS)
		return NULL;
	s->writer[s->writers].member = o->member;
	s->writer[s->writers].queue = o->queue;
	s->writer[s->writers].n = s->writer[s->writers].landed = s->writer[s->writers].known = 0;
	return &s->writer[s->writers++];
}

struct sr_written sr_written_into(const struct sr_exposed_value *v, const struct sr_group_write *w, uint64_t number)
{
	uint64_t begin = w->addr > v->addr ? w->addr : v->addr;
	uint64_t end = w->addr + w->length < v->addr + v->length ? w->addr + w->length : v->addr + v->length;

	return (struct sr_written){.number = number,
				   .weight = w->origin.weight,
				   .at = w->at + (sr_group_is_open(w->kind) ? 0 : begin - w->addr),
				   .from = (uint32_t)(begin - v->addr),
				   .length = begin < end ? (uint32_t)(end - begin) : 0,
				   .kind = w->kind,
				   .before = (uint16_t)(begin - w->addr)};
}

static void add(struct sr_candidates *s, const struct sr_group_write *w, uint64_t number)
{
	const struct sr_written x = sr_written_into(s->v, w, number);
	bool has_landed = sr_landed_before(number);
	struct sr_writer *of;

	if (w->kind == SR_GROUP_OWN && s->owns < OWN && !s->seen)
		s->own[s->owns++] = x;
	/* Those of others are not in doubt. */
	if (!x.length || (w->kind != SR_GROUP_BYTES && !sr_group_is_open(w->kind)))
		return;
	of = writer_of(s, &w->origin);
	s->more |= of && of->n == WRITES && !has_landed;
	if (!of || of->n == WRITES || (has_landed && of->landed == AGAIN))
		return;
	of->w[of->n++] = x;
	s->atomics |= sr_group_is_open(w->kind);
	of->landed += has_landed;
	of->known += w->origin.tick <= s->knows[w->origin.member];
}

static void reverse(struct sr_writer *w)
{
	for (uint32_t i = 0; i < w->n / 2; i++) {
		struct sr_written x = w->w[i];

		w->w[i] = w->w[w->n - 1 - i];
		w->w[w->n - 1 - i] = x;
	}
}

static bool begin(struct sr_candidates *s)
{
	if (!room)
		room = sr_map_zeroed(sizeof(*room));
	if (!room)
		return false;
	s->writer = room->writer;
	s->own = room->own;
	s->sequence = room->sequence;
	s->part = UINT32_MAX;
	s->writers = s->owns = 0;
	s->seen = s->atomics = s->more = false;
	return true;
}

bool sr_candidates_gather(struct sr_candidates *s)
{
	uint64_t number = s->last ? s->last : sr_landed_writes_into(sr_page_down(s->v->addr)), from = s->v->addr % PAGE;
	const struct sr_page_link *l;
	uint32_t old = 0, scanned = 0;

	if (!begin(s))
		return false;
	for (; number >= s->first && (l = sr_page_link(sr_landed_writes(), number)) && old < OLD && scanned < SR_LANDED_SCANNED;
	     scanned++, number = l->before) {
		struct sr_group_write w;

		if (l->from >= from + s->v->length || from >= l->end)
			continue;
		old += sr_landed_before(number);
		s->seen = s->seen || sr_landed_before(number);
		if (sr_history_read(sr_group_self, number, &w, 1))
			add(s, &w, number);
	}
	for (uint32_t i = 0; i < s->writers; i++)
		reverse(&s->writer[i]);
	return true;
}
