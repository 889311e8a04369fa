/* SPDX-License-Identifier: BSD-2-Clause */
/* source.c: the records of one thread. */
#include "replay/analysis/log/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/grow.h"

static int keep_clock(struct sr_log_source *s, uint64_t event, const struct sr_order *order)
{
	if (!sr_grow((void **)&s->clocks, s->clocks_n, &s->clocks_room, sizeof(*s->clocks)))
		return -ENOMEM;
	s->clocks[s->clocks_n++] = (struct sr_log_clock){
	    .event = event, .found = order, .order = order ? *order : (struct sr_order){0}};
	return 0;
}

/* 1: what was found before comes first, since other threads may have gone on in between. */
static int begin_found(const struct sr_log_rank *r, struct sr_log_source *s, uint64_t event, uint64_t before)
{
	struct sr_log_found *f = &s->found;

	if (r->has_places && f->clocks && (f->behind != s->last || event != before + 1))
		return 1;
	if (!f->clocks)
		*f = (struct sr_log_found){.behind = s->last, .first = event};
	return 0;
}

static void end_found(struct sr_log_source *s)
{
	s->found.clocks = s->clocks_n;
	s->found.exposed = s->exposed_n;
}

/* 1: the orders found before come first, and the record is still to be taken. */
static int take_clock(const struct sr_log_rank *r, struct sr_log_source *s, const struct sr_entry *e)
{
	uint32_t size = (uint32_t)e->size, at;
	struct sr_order order;
	const uint64_t before = s->orders.event;
	int n = sr_order_decode_event(&s->orders, e->payload, size), err;
	/* Others may wait for an event of this thread that found nothing before another thread goes on. */
	const bool found = n > 0 && (size > (uint32_t)n || (r->has_places && r->sources_n > 1));

	if (n < 0)
		return n;
	if (found && begin_found(r, s, s->orders.event, before)) {
		s->orders.event = before;
		return 1;
	}
	err = keep_clock(s, s->orders.event, NULL);
	for (at = (uint32_t)n; !err; at += (uint32_t)n) {
		n = sr_order_decode(&s->orders, (const uint8_t *)e->payload + at, size - at,
				    &order);
		if (n < 0)
			return n;
		if (!n)
			break;
		if (order.via != SR_ORDER_SHORT)
			err = keep_clock(s, s->orders.event, &order);
	}
	if (found)
		end_found(s);
	return err;
}

/* The payload is valid only until the next record is read. */
static int keep_exposed(struct sr_log_source *s, const struct sr_entry *e)
{
	if (!sr_grow((void **)&s->exposed, s->exposed_n, &s->exposed_room, sizeof(*s->exposed)))
		return -ENOMEM;
	if (s->bytes_room - s->bytes_n < e->size + 8) {
		size_t room = 2 * (s->bytes_n + e->size) + 4096;
		uint8_t *more = realloc(s->bytes, room);

		if (!more)
			return -ENOMEM;
		s->bytes = more;
		s->bytes_room = room;
	}
	s->exposed[s->exposed_n++] = (struct sr_log_exposed){s->clocks_n, s->bytes_n, e->size};
	memcpy(s->bytes + s->bytes_n, e->payload, e->size);
	s->bytes_n += (e->size + 7) & ~(size_t)7;
	/* The values that orders were found with. */
	if (s->found.clocks && s->found.clocks == s->clocks_n)
		end_found(s);
	return 0;
}

/*
 * Does the call return what came while it waited? Then it takes its place at its return, every other at its first number, which
 * of a poll is that of what it found.
 */
static bool is_wait(enum sr_what what)
{
	switch (what) {
	case SR_WHAT_CM_EVENT:
	case SR_WHAT_CM_CONNECT:
	case SR_WHAT_CM_REQUEST:
		return true;
	default:
		return false;
	}
}

static enum sr_log_place place_of(const struct sr_log_rank *r, const struct sr_log_source *s, enum sr_what what, uint64_t sn)
{
	if (what == SR_WHAT_NOTHING)
		return r->wanted.place ? r->wanted.place(r->wanted.argument, r->wanted.rank, s->thread, sn)
				       : SR_LOG_NOT_WANTED;
	return is_wait(what) ? SR_LOG_AT_RETURN : SR_LOG_AT_ENTRY;
}

static uint64_t number_at(const struct sr_entry *e, unsigned int from_end)
{
	uint64_t number;

	memcpy(&number, (const uint8_t *)e->payload + e->size - from_end * sizeof(number), sizeof(number));
	return number;
}

/* False: the payload is damaged. */
static bool get_head(const struct sr_entry *e, struct sr_call_head *head)
{
	if (e->size < sizeof(*head))
		return false;
	memcpy(head, e->payload, sizeof(*head));
	return sizeof(*head) + head->in_size + head->orders * sizeof(uint64_t) <= e->size;
}

/* The call's place among the numbers: its own or, without one, that of what the thread did last. */
static uint64_t key_of(const struct sr_log_source *s, enum sr_log_place place, const struct sr_entry *e, unsigned int orders)
{
	return !orders ? s->last : number_at(e, place == SR_LOG_AT_RETURN ? 1 : orders);
}

static void place_at(struct sr_log_source *s, uint64_t key, uint64_t clock)
{
	if (s->key != key || clock)
		s->clock = clock;
	s->key = key;
}

/* What was found in front of it was found at its place, if not before. */
static void place_call(struct sr_log_source *s, uint64_t key)
{
	place_at(s, key, s->found.clocks && s->found.behind == key ? s->found.first : 0);
}

/* What was found in front of the call has a place of its own. */
static int give_found(struct sr_log_source *s, uint64_t sn, uint32_t stop, uint32_t accesses)
{
	place_at(s, s->found.behind, s->found.first);
	s->holds = true;
	s->call = (struct sr_log_call){.thread = s->thread,
				       .sn = sn,
				       .is_part = true,
				       .stop = stop,
				       .accesses = accesses,
				       .clocks = s->clocks,
				       .clocks_n = s->found.clocks,
				       .exposed = s->exposed,
				       .exposed_n = s->found.exposed,
				       .exposed_bytes = s->bytes};
	return 1;
}

/* What was handed out is over. */
static void drop_given(struct sr_log_source *s)
{
	const struct sr_log_found *f = &s->found;

	if (!s->holds) {
		s->clocks_n = s->exposed_n = s->bytes_n = 0;
		s->found.clocks = 0;
		return;
	}
	s->clocks_n -= f->clocks;
	s->exposed_n -= f->exposed;
	memmove(s->clocks, s->clocks + f->clocks, s->clocks_n * sizeof(*s->clocks));
	if (s->exposed_n)
		memmove(s->exposed, s->exposed + f->exposed, s->exposed_n * sizeof(*s->exposed));
	for (size_t i = 0; i < s->exposed_n; i++)
		s->exposed[i].clocks -= f->clocks;
	s->found.clocks = 0;
}

static bool posts(enum sr_what what)
{
	return what == SR_WHAT_POST_SEND || what == SR_WHAT_BATCH_COMPLETE || what == SR_WHAT_BIND_MW;
}

/* The last event in front of a post is its own: it takes its place with it. */
static void leave_to_post(struct sr_log_source *s)
{
	const size_t n = s->clocks_n;

	if (n && s->found.clocks == n && !s->clocks[n - 1].found && (!s->exposed_n || s->exposed[s->exposed_n - 1].clocks < n))
		s->found.clocks--;
}

static int take_call(const struct sr_log_rank *r, struct sr_log_source *s, enum sr_what what, enum sr_log_place place,
		     const struct sr_entry *e)
{
	struct sr_call_head head;
	const uint8_t *p = e->payload, *numbers;
	uint64_t key;

	if (!get_head(e, &head))
		return -EBADMSG;
	key = key_of(s, place, e, head.orders);
	if (posts(what))
		leave_to_post(s);
	if (r->has_places && s->found.clocks && s->found.behind < key)
		return give_found(s, e->sn, 0, SR_LOG_NOT_COUNTED);
	place_call(s, key);
	if (head.orders)
		s->last = number_at(e, 1);
	numbers = p + e->size - head.orders * sizeof(uint64_t);
	s->call = (struct sr_log_call){
	    .what = head.error == SR_ERROR_CANCELLED ? SR_WHAT_NOTHING : what, /* cancelled: no results */
	    .thread = s->thread,
	    .is_wanted = what == SR_WHAT_NOTHING && place,
	    .sn = e->sn,
	    .site = head.site,
	    .result = head.result,
	    .in = p + sizeof(head),
	    .in_size = head.in_size,
	    .out = p + sizeof(head) + head.in_size,
	    .out_size = (size_t)(numbers - p) - sizeof(head) - head.in_size,
	    .clocks = s->clocks,
	    .clocks_n = s->clocks_n,
	    .exposed = s->exposed,
	    .exposed_n = s->exposed_n,
	    .exposed_bytes = s->bytes,
	};
	return 1;
}

/* Of many polls in a row that find nothing, the first one is enough. */
static bool is_idle(const struct sr_log_call *c)
{
	return c->what == SR_WHAT_POLL ? !c->result : c->what == SR_WHAT_POLL_EX && c->result;
}

static int take_matching(const struct sr_log_rank *r, struct sr_log_source *s, enum sr_what what,
			 enum sr_log_place place, const struct sr_entry *e)
{
	int got = take_call(r, s, what, place, e);

	if (got > 0 && what && !s->holds)
		s->call.opcode = r->kinds.opcode[e->kind - SR_REC_CALL];
	return got;
}

static void keep_for_repeats(struct sr_log_source *s, enum sr_what what, const struct sr_entry *e)
{
	struct sr_log_repeated *a = &s->again;

	if ((s->call.what == SR_WHAT_NOTHING && !s->call.is_wanted) || is_idle(&s->call) || e->size > sizeof(a->payload))
		return;
	a->size = e->size;
	a->what = what;
	a->kind = e->kind;
	memcpy(a->payload, e->payload, e->size);
}

static int take_again(const struct sr_log_rank *r, struct sr_log_source *s)
{
	struct sr_log_repeated *a = &s->again;
	const struct sr_entry e = {
	    .kind = a->kind, .sn = a->sn++, .payload = a->payload, .size = (uint32_t)a->size};

	a->left--;
	/* A writer puts nothing in front of a repetition. */
	s->found.clocks = 0;
	return take_matching(r, s, a->what, place_of(r, s, a->what, e.sn), &e);
}

static bool matters(const struct sr_log_rank *r, const struct sr_log_source *s, enum sr_what what, enum sr_log_place place)
{
	if (r->control_only)
		return what > SR_WHAT_DATA_PATH_END;
	return what != SR_WHAT_NOTHING || s->clocks_n || s->exposed_n || place;
}

/* Records after the last call stand before a call that was never made. */
static int take_end(struct sr_log_source *s)
{
	s->over = !s->clocks_n && !s->exposed_n;
	place_call(s, s->found.clocks ? s->found.behind : s->last);
	s->call = (struct sr_log_call){.thread = s->thread,
				       .sn = s->last_sn + 1,
				       .clocks = s->clocks,
				       .clocks_n = s->clocks_n,
				       .exposed = s->exposed,
				       .exposed_n = s->exposed_n,
				       .exposed_bytes = s->bytes};
	return s->over ? 0 : 1;
}

static void note_mark(struct sr_log_rank *r, const struct sr_entry *e)
{
	const struct sr_mark_payload *mark = e->payload;

	if (mark->reason == SR_MARK_DROPPED)
		r->holes += mark->skipped_sns ? mark->skipped_sns : 1;
}

/* A killed process, or one that is no longer recorded, may have done more. */
static bool is_end(const struct sr_entry *e)
{
	const struct sr_mark_payload *mark = e->payload;

	return e->kind == SR_REC_EXIT ||
	       (e->kind == SR_REC_MARK && mark->reason == SR_MARK_ENDED);
}

/* 1: s->call is relevant, or a part of what comes before it; 0: it is not; -errno. */
static int take_record_of_call(struct sr_log_rank *r, struct sr_log_source *s, const struct sr_entry *e)
{
	enum sr_what what = sr_log_what(&r->kinds, e->kind);
	enum sr_log_place place = place_of(r, s, what, e->sn);
	struct sr_call_head head;
	int got;

	if (sr_entry_last_sn(e) > s->last_sn)
		s->last_sn = sr_entry_last_sn(e);
	s->stops = 0;
	s->again.size = 0;
	if (!matters(r, s, what, place)) {
		if (get_head(e, &head) && head.orders)
			s->last = number_at(e, 1);
		return 0;
	}
	got = take_matching(r, s, what, place, e);
	if (got > 0 && !s->holds)
		keep_for_repeats(s, what, e);
	return got;
}

/*
 * 1: what was found before it comes first.  The thread stops there until others have gone on, who may wait for ranks that wait for
 * that: it has to be told before the thread's next call.
 */
static int take_stop(const struct sr_log_rank *r, struct sr_log_source *s, uint32_t accesses)
{
	if (s->found.clocks && !r->control_only)
		return give_found(s, s->last_sn + 1, s->stops + 1, accesses);
	s->stops++;
	return 0;
}

static int take_token(const struct sr_log_rank *r, struct sr_log_source *s, const struct sr_entry *e)
{
	struct sr_token_payload p;
	int given;

	if (e->size < sizeof(p))
		return 0;
	memcpy(&p, e->payload, sizeof(p));
	given = sr_run_token_is_stop(p.what) ? take_stop(r, s, p.what == SR_RUN_TOKEN_AT_HEAP ? SR_LOG_NOT_COUNTED : p.other) : 0;
	if (!given && p.event)
		s->last = p.event;
	return given;
}

static void take_behind(struct sr_log_source *s, const struct sr_entry *e)
{
	if (e->size >= sizeof(s->last))
		memcpy(&s->last, e->payload, sizeof(s->last));
}

/* One more record of a kind that is kept as it is: `n` of them are there. */
static int keep_payload(void **all, size_t *n, size_t *room, size_t size, const struct sr_entry *e)
{
	void *p;

	if (e->size < size)
		return -EBADMSG;
	p = sr_grow(all, *n, room, size);
	if (!p)
		return -ENOMEM;
	memcpy(p, e->payload, size);
	++*n;
	return 0;
}

static int keep_picked(struct sr_log_rank *r, const struct sr_entry *e)
{
	return keep_payload((void **)&r->picked, &r->picked_n, &r->picked_room, sizeof(*r->picked), e);
}

static int keep_changed(struct sr_log_rank *r, const struct sr_entry *e)
{
	return keep_payload((void **)&r->changed, &r->changed_n, &r->changed_room, sizeof(*r->changed), e);
}

static int take_note(struct sr_log_rank *r, struct sr_log_source *s, const struct sr_entry *e)
{
	int got;

	switch (e->kind) {
	case SR_REC_CLOCK:
		got = r->control_only ? 0 : take_clock(r, s, e);
		return got > 0 ? give_found(s, s->last_sn + 1, 0, SR_LOG_NOT_COUNTED) : got;
	case SR_REC_EXPOSED:
		return r->control_only ? 0 : keep_exposed(s, e);
	case SR_REC_RUN_TOKEN:
		return take_token(r, s, e);
	case SR_REC_PLACE:
		return take_stop(r, s, SR_LOG_NOT_COUNTED);
	case SR_REC_BEHIND:
		take_behind(s, e);
		return 0;
	case SR_REC_MARK:
		note_mark(r, e);
		return 0;
	case SR_REC_PICKED:
		return r->control_only ? keep_picked(r, e) : 0;
	case SR_REC_CHANGED:
		return r->control_only ? keep_changed(r, e) : 0;
	default:
		return 0;
	}
}

static int next_entry(struct sr_log_rank *r, struct sr_log_source *s)
{
	int got;

	if (s->holds) {
		s->holds = false;
		return 1;
	}
	got = sr_stream_next(s->stream, &s->entry);
	if (got <= 0)
		return got;
	r->records++;
	s->offset = s->entry.offset;
	s->cut = !is_end(&s->entry);
	return 1;
}

int sr_log_advance(struct sr_log_rank *r, struct sr_log_source *s)
{
	const struct sr_entry *e = &s->entry;
	int got, taken;

	drop_given(s);
	if (s->again.left)
		return take_again(r, s);
	while ((got = next_entry(r, s)) > 0) {
		if (e->kind == SR_REC_REPEAT) {
			s->last_sn = sr_entry_last_sn(e);
			s->stops = 0;
			s->again.left = s->again.size ? e->count : 0;
			s->again.sn = e->sn;
			if (s->again.left)
				return take_again(r, s);
			continue;
		}
		taken = e->kind >= SR_REC_CALL ? take_record_of_call(r, s, e) : take_note(r, s, e);
		if (taken)
			return taken;
	}
	return got < 0 ? got : take_end(s);
}
