/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/traces/complete.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/page.h"
#include "logd/trace/exposed_records.h"
#include "replay/abi/produced.h"
#include "replay/analysis/log/decode.h"
#include "replay/analysis/log/wire.h"
#include "shim/core/call.h"

/* A poll's record: all up to the segments, these, and what follows them. */
struct parts {
	size_t before;
	struct sr_cursor segments;
	size_t n;
	const uint8_t *end; /* of the record */
};

/* False: the call is none that brings values. */
static bool take_apart(const struct sr_completer *c, const struct sr_entry *e, struct parts *p)
{
	const uint8_t *payload = e->payload;
	struct sr_log_polled polled;

	if (!sr_log_get_polled_of(c->kinds, e, &polled) || !polled.segments_n)
		return false;
	*p = (struct parts){.before = (size_t)(polled.segments.p - payload),
			    .segments = polled.segments,
			    .n = polled.segments_n,
			    .end = payload + e->size};
	return true;
}

/* How many bytes the record is short of; 0: none.  -EBADMSG. */
static int64_t missing(struct sr_completer *c, const struct parts *p)
{
	struct sr_cursor at = p->segments;
	int64_t bytes = 0;

	c->last_n = 0;
	for (size_t i = 0; i < p->n; i++) {
		struct sr_wire_segment s;
		uint32_t length;

		sr_get_segment_fields(&at, &s);
		if (at.bad)
			return -EBADMSG;
		if (!sr_log_is_left_out(s.addr, s.data.p, s.data.n, &length))
			continue;
		bytes += length;
		if (c->last_n < sizeof(c->last) / sizeof(c->last[0]))
			c->last[c->last_n] = length;
		c->last_n++;
	}
	return bytes;
}

static uint8_t *make_room(struct sr_completer *c, size_t size)
{
	if (size > c->room_size) {
		uint8_t *more = realloc(c->room, size + size / 2);

		if (!more)
			return NULL;
		c->room = more;
		c->room_size = size + size / 2;
	}
	return c->room;
}

static uint8_t *put(uint8_t *to, const void *p, size_t n)
{
	memcpy(to, p, n);
	return to + n;
}

/* What a READ brought into exposed memory, loads find: that is not in a detailed trace.  The segments' number is in front of them. */
static int fill(struct sr_completer *c, struct parts *p, uint8_t *to, uint8_t **end)
{
	uint8_t *count = to - sizeof(uint32_t);
	uint32_t dropped = 0, n;

	for (size_t i = 0; i < p->n; i++) {
		const uint8_t *begin = p->segments.p, *bytes;
		struct sr_wire_segment s;
		uint32_t length;

		sr_get_segment_fields(&p->segments, &s);
		if (!sr_log_is_left_out(s.addr, s.data.p, s.data.n, &length)) {
			to = put(to, begin, (size_t)(p->segments.p - begin));
			continue;
		}
		if (sr_produced_none(c->produced, c->thread, &c->at)) {
			dropped++;
			continue;
		}
		bytes = sr_produced_next(c->produced, c->thread, length, &c->at);
		if (!bytes)
			return -ENODATA;
		s.addr &= ~SR_LEFT_OUT;
		to = put(to, &s.addr, sizeof(s.addr));
		to = put(to, &length, sizeof(length));
		to = put(to, bytes, length);
		c->values++;
	}
	*end = put(to, p->segments.p, (size_t)(p->end - p->segments.p));
	n = (uint32_t)p->n - dropped;
	memcpy(count, &n, sizeof(n));
	return 0;
}

/* What a repeated poll brought, and what a repeated post was given, is what it was before, and was produced as often. */
static int pass_repetitions(struct sr_completer *c, uint64_t count)
{
	if (c->last_n > sizeof(c->last) / sizeof(c->last[0]))
		return -EBADMSG; /* the recorder repeats no record of this size */
	for (; c->last_n && count; count--)
		for (uint32_t i = 0; i < c->last_n; i++)
			if (!sr_produced_next(c->produced, c->thread, c->last[i], &c->at))
				return -ENODATA;
	return 0;
}

/* How large the record becomes; 0: it lacks nothing.  -EBADMSG. */
static int64_t completed_size(const struct sr_exposed_records *r)
{
	const struct sr_exposed_event *e = &r->event;
	size_t size = sizeof(struct sr_exposed_payload) + e->protected_n * sizeof(*e->protected);
	bool lacks = false;

	for (uint32_t i = 0; i < e->values_n; i++) {
		lacks = lacks || !e->values[i].data;
		size += sizeof(struct sr_exposed_value_head) + ((e->values[i].length + 7u) & ~7u);
	}
	return lacks ? (int64_t)size : 0;
}

static int fill_exposed(struct sr_completer *c, const struct sr_exposed_records *r, const void *payload)
{
	const struct sr_exposed_event *e = &r->event;
	static const char zeros[8];
	uint8_t *to = put(c->room, payload,
			  sizeof(struct sr_exposed_payload) + e->protected_n * sizeof(*e->protected));

	for (uint32_t i = 0; i < e->values_n; i++) {
		const struct sr_exposed_value *v = &e->values[i];
		const struct sr_exposed_value_head head = {.addr = v->addr, .length = v->length};
		const void *data = v->data;

		if (!data) {
			data = sr_produced_next(c->produced, c->thread, v->length, &c->at);
			c->values++;
		}
		if (!data)
			return -ENODATA;
		to = put(to, &head, sizeof(head));
		to = put(to, data, v->length);
		to = put(to, zeros, -v->length & 7);
	}
	return 0;
}

/* The address that was accessed, of which the trace has the page; 0: it has all of it, or there is none. */
static uint64_t take_address(struct sr_completer *c, const struct sr_exposed_event *e, int *err)
{
	const void *p;
	uint64_t addr;

	if (!e->addr || e->addr % PAGE)
		return 0;
	p = sr_produced_next(c->produced, c->thread, sizeof(addr), &c->at);
	*err = p ? 0 : -ENODATA;
	if (!p)
		return 0;
	memcpy(&addr, p, sizeof(addr));
	return addr;
}

static int complete_exposed(struct sr_completer *c, struct sr_entry *e)
{
	static struct sr_exposed_records r;
	uint64_t addr;
	int64_t size;
	int err = 0;

	if (!sr_exposed_records_decode(&r, e->payload, e->size))
		return -EBADMSG;
	size = completed_size(&r);
	addr = c->sums ? take_address(c, &r.event, &err) : 0;
	if (err || !(size || addr))
		return err;
	if (!make_room(c, size ? (size_t)size : e->size))
		return -ENOMEM;
	if (size)
		err = fill_exposed(c, &r, e->payload);
	else
		memcpy(c->room, e->payload, e->size);
	if (addr)
		memcpy(c->room + offsetof(struct sr_exposed_payload, addr), &addr, sizeof(addr));
	e->payload = c->room;
	e->size = size ? (size_t)size : e->size;
	return err;
}

/* The arguments of the call, of some of which the trace has only sums. */
static int complete_arguments(struct sr_completer *c, struct sr_entry *e)
{
	const uint8_t *arguments;
	struct sr_call_head head;

	if (e->size < sizeof(head))
		return -EBADMSG;
	memcpy(&head, e->payload, sizeof(head));
	if (head.in_size > e->size - sizeof(head))
		return -EBADMSG;
	if (!make_room(c, e->size))
		return -ENOMEM;
	arguments = sr_produced_next(c->produced, c->thread, head.in_size, &c->at);
	if (!arguments)
		return -ENODATA;
	c->last[0] = head.in_size;
	c->last_n = 1;
	memcpy(c->room, e->payload, e->size);
	memcpy(c->room + sizeof(head), arguments, head.in_size);
	e->payload = c->room;
	return 0;
}

static bool lacks_arguments(enum sr_what what)
{
	return what == SR_WHAT_POST_SEND || what == SR_WHAT_POST_RECV || what == SR_WHAT_POST_SRQ_RECV ||
	       what == SR_WHAT_SET_INLINE || what == SR_WHAT_SET_INLINE_LIST;
}

static int name_completion(struct sr_completer *c, struct sr_cursor *completions, struct sr_cursor *segments)
{
	uint8_t *to = (uint8_t *)(uintptr_t)completions->p, *segment = (uint8_t *)(uintptr_t)segments->p;
	struct sr_produced_pick pick;
	struct sr_wire_segment s;
	struct ibv_wc wc;
	const void *p = sr_produced_next(c->produced, c->thread, sizeof(pick), &c->at);

	if (!p)
		return -ENODATA;
	memcpy(&pick, p, sizeof(pick));
	sr_get_ibv_wc(completions, &wc);
	if (completions->bad)
		return -EBADMSG;
	wc.wr_id = pick.wr_id;
	wc.qp_num = pick.qp_num;
	sr_store_ibv_wc(to, &wc);
	if (!pick.addr)
		return 0;
	sr_get_segment_fields(segments, &s);
	if (segments->bad)
		return -EBADMSG;
	s.addr |= pick.addr;
	memcpy(segment, &s.addr, sizeof(s.addr));
	return 0;
}

/* Puts in whose the poll's completions are, if its record does not say so. */
static int name_queue(struct sr_completer *c, struct sr_entry *e)
{
	struct sr_log_polled polled;
	struct sr_cursor at;
	struct ibv_wc wc;
	uint8_t *named;
	int err = 0;

	if (!sr_log_get_polled_of(c->kinds, e, &polled) || polled.extended)
		return 0;
	at = polled.completions;
	sr_get_ibv_wc(&at, &wc);
	if (at.bad || wc.qp_num != SR_PICK_LEFT_OUT)
		return 0;
	named = realloc(c->named, e->size);
	if (!named)
		return -ENOMEM;
	c->named = memcpy(named, e->payload, e->size);
	e->payload = named;
	sr_log_get_polled_of(c->kinds, e, &polled);
	for (size_t i = 0; i < polled.n && !err; i++)
		err = name_completion(c, &polled.completions, &polled.segments);
	return err;
}

int sr_complete(struct sr_completer *c, struct sr_entry *e)
{
	struct parts p;
	int64_t bytes;
	uint8_t *room, *end = NULL;
	int err;

	if (e->kind == SR_REC_REPEAT)
		return pass_repetitions(c, e->count);
	if (e->kind == SR_REC_EXPOSED)
		return complete_exposed(c, e);
	if (e->kind < SR_REC_CALL)
		return 0;
	c->last_n = 0;
	if (c->sums && lacks_arguments(sr_log_what(c->kinds, e->kind)))
		return complete_arguments(c, e);
	err = name_queue(c, e);
	if (err || !take_apart(c, e, &p))
		return err;
	bytes = missing(c, &p);
	if (bytes <= 0)
		return (int)bytes;
	room = make_room(c, e->size + (size_t)bytes);
	if (!room)
		return -ENOMEM;
	memcpy(room, e->payload, p.before);
	err = fill(c, &p, room + p.before, &end);
	if (err)
		return err;
	e->payload = room;
	e->size = (size_t)(end - room);
	return 0;
}

void sr_completer_end(struct sr_completer *c)
{
	free(c->room);
	free(c->named);
}
