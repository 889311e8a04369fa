/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/landed.h"

#include "logd/base/page.h"
#include "shim/memory/room.h"
#include "shim/replay/group/candidates.h"
#include "shim/replay/group/group.h"
#include "shim/replay/group/landed_writes.h"
#include "shim/replay/group/own.h"
#include "shim/replay/group/search.h"
#include "shim/replay/group/unpolled.h"
#include "shim/verbs/regions.h"

#define ROOM (64 * PAGE)

/* Mapped, because the library's image has to stay small.  The lock of the exposed regions guards it. */
static struct room {
	uint8_t bytes[ROOM]; /* of an event's values */
	struct sr_unpolled_piece pieces[SR_UNPOLLED_PIECES];
} *room;

static bool begin(void)
{
	if (!room)
		room = sr_map_zeroed(sizeof(*room));
	return room && sr_landed_writes();
}

/* What has been written to this process's memory since. */
static void take_in(void)
{
	sr_page_writes_take_in(sr_landed_writes(), sr_group_self);
}

/* With what had landed before, or without it, in whatever order, under or over what the program has stored. */
static bool find_with_given(struct sr_candidates *s)
{
	if (!sr_candidates_gather(s))
		return false;
	/* Of a large region's pages the recorder does not know what is there at first: it may be as the program has left it. */
	if ((s->passed || !s->writers) && sr_candidates_try_own(s))
		return true;
	if (!s->writers)
		return false;
	for (int last = 0; last < (s->owns || s->before ? 2 : 1); last++) {
		s->own_last = last;
		if (sr_candidates_try(s, false) || (sr_candidates_have_orders(s) && sr_candidates_try(s, true)))
			return true;
	}
	return false;
}

static bool fits_with(void *candidates, uint32_t pieces)
{
	return sr_candidates_try_pieces(candidates, pieces);
}

/* Messages may have come whose completions have not been polled. */
static bool is_unpolled(struct sr_candidates *s)
{
	const uint64_t page = sr_page_down(s->v->addr);
	uint64_t number = sr_page_writes_count(sr_landed_writes());

	s->part = UINT32_MAX;
	s->piece = room->pieces;
	if (!sr_unpolled_find(&(struct sr_unpolled){s->v->addr, s->v->length, room->pieces, fits_with, s}))
		return false;
	take_in();
	while (number++ < sr_page_writes_count(sr_landed_writes())) {
		struct sr_group_write w;

		if (sr_history_read(sr_group_self, number, &w, 1) && sr_page_down(w.addr) == page && w.kind == SR_GROUP_BYTES)
			sr_landed_note(number);
	}
	return true;
}

/* Where memory changed within the event, what it has in front of the value may be older. */
static bool find_by_writers(struct sr_candidates *s)
{
	uint32_t given = s->given_n;
	bool found = find_with_given(s) || is_unpolled(s);

	if (!found && given) {
		s->given_n = 0;
		found = find_with_given(s);
		s->given_n = given;
	}
	return found;
}

/* What a member posted to another queue pair may have landed before what it had posted earlier. */
static bool find(struct sr_candidates *s)
{
	s->by_queue = s->queues = false;
	s->first = s->last = 0;
	if (find_by_writers(s) || (s->more && sr_candidates_reached(s) && find_by_writers(s)))
		return true;
	s->by_queue = s->queues;
	return s->by_queue && find_by_writers(s);
}

/* What is found in the value has landed, and what its members posted to it before. */
static void note_landed(const struct sr_candidates *s)
{
	for (uint32_t i = 0; i < s->writers; i++)
		for (uint32_t k = 0; k < s->writer[i].end; k++)
			if (s->part == UINT32_MAX || i != s->partial || k + 1 < s->writer[i].end)
				sr_landed_note(s->writer[i].w[k].number);
}

/* ------------------------------------------------------------ waiting */

static bool find_again(void *search)
{
	take_in();
	return find(search);
}

/* No member may have come so far in this replay. */
static bool await(struct sr_candidates *s)
{
	return sr_search_await(&(struct sr_search){
	    .member = sr_group_self, .writes = sr_page_writes_count(sr_landed_writes()), .find = find_again, .argument = s});
}

/* Nothing more will come. */
static bool find_among_all(struct sr_candidates *s)
{
	s->most = LANDED_TRIES;
	return find_again(s);
}

/* Do several members write to the page, or its owner and another one? */
static bool is_of_several(uint64_t page)
{
	uint64_t number = sr_landed_writes_into(page);
	const struct sr_page_link *l;
	int32_t writer = -1;

	for (uint32_t scanned = 0; (l = sr_page_link(sr_landed_writes(), number)) && scanned < SR_LANDED_SCANNED; scanned++, number = l->before) {
		struct sr_group_write w;

		if (!sr_history_read(sr_group_self, number, &w, 1) || (w.kind != SR_GROUP_BYTES && w.kind != SR_GROUP_OWN))
			continue;
		if (writer >= 0 && w.origin.member != writer)
			return true;
		writer = w.origin.member;
	}
	return false;
}

/* Where a recording had better have values: the user names it. */
static void find_contended(uint64_t addr, struct sr_landed_lack *lack)
{
	uint64_t begin = sr_page_down(addr), end = begin;

	while (is_of_several(end))
		end += PAGE;
	while (end > begin && is_of_several(begin - PAGE))
		begin -= PAGE;
	lack->contended = begin;
	lack->contended_bytes = end - begin;
}

/* How many values in front of this one the trace has, and lie in it. */
static uint32_t count_given(const struct sr_exposed_value *values, uint32_t i)
{
	uint32_t n = 0;

	while (n < i && !values[n].mask)
		n++;
	return n;
}

static bool is_of_one_member(const struct sr_candidates *s)
{
	for (uint32_t i = 1; i < s->writers; i++)
		if (s->writer[i].member != s->writer[0].member)
			return false;
	return s->writers;
}

/* Was it found as a page stopped being passed through, or in what the program sends, from a page that may be? */
static bool may_be_own(const struct sr_exposed_event *e)
{
	return e->flags & SR_EXPOSED_ASYNC || (e->addr && !e->pc);
}

static enum sr_landed fill(struct sr_thread *t, const struct sr_exposed_event *e, struct sr_exposed_value *values, uint32_t which,
			   uint8_t *bytes, struct sr_landed_lack *lack)
{
	struct sr_exposed_value *v = &values[which];
	struct sr_candidates s = {.v = v, .bytes = bytes, .most = LANDED_FIRST, .passed = may_be_own(e), .given = values,
			   .given_n = count_given(values, which)};

	if (s.passed)
		s.before = sr_contents_before(sr_page_down(v->addr));
	if (s.before)
		s.before += v->addr % PAGE;
	sr_progress_now(t, s.knows);
	sr_transfer_await_members();
	take_in();
	if (!find(&s) && !await(&s) && !find_among_all(&s)) {
		sr_search_in_vain();
		find_contended(v->addr, lack);
		if (s.passed) {
			lack->writer = sr_group_memory->member[sr_group_self].rank;
			return SR_LANDED_OTHERS;
		}
		lack->writer = is_of_one_member(&s) ? sr_group_memory->member[s.writer[0].member].rank : -1;
		return s.writers ? SR_LANDED_OTHERS : SR_LANDED_NOWHERE;
	}
	note_landed(&s);
	v->data = bytes;
	return SR_LANDED;
}

enum sr_landed sr_landed_fill(struct sr_thread *t, const struct sr_exposed_event *e,
			      struct sr_exposed_value *values, struct sr_landed_lack *lack)
{
	size_t used = 0;

	sr_landed_event();
	for (uint32_t i = 0; i < e->values_n; i++) {
		enum sr_landed how = SR_LANDED_NOWHERE;

		if (values[i].data)
			continue;
		*lack = (struct sr_landed_lack){.which = i, .writer = -1};
		if (sr_group_on && begin() && used + values[i].length <= ROOM)
			how = fill(t, e, values, i, room->bytes + used, lack);
		if (how != SR_LANDED)
			return how;
		used += values[i].length;
	}
	return SR_LANDED;
}
