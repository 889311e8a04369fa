/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/rank.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "shim/core/call.h"

/* The thread's last call, as SR_REC_REPEAT stands for it. */
struct repeated {
	uint8_t payload[SR_REPEAT_MAX];
	size_t size; /* 0: it does not matter, or is too long to be repeated */
	enum sr_what what;
	uint16_t kind;
	uint64_t left, sn; /* how often it is still to be repeated, and the next SN */
};

/* A thread's stream, at its next relevant call. */
struct source {
	struct sr_stream *stream;
	uint32_t thread;
	uint64_t key; /* number of the call's event; without one, of the last event */
	struct sr_log_call call;
	struct sr_entry entry;
	struct sr_order_stream orders;
	struct sr_log_clock *clocks;
	size_t clocks_n, clocks_room;
	struct sr_log_exposed *exposed;
	size_t exposed_n, exposed_room;
	uint8_t *bytes; /* payloads of SR_REC_EXPOSED */
	size_t bytes_n, bytes_room;
	uint64_t last_sn, offset;
	struct repeated again;
	bool over;
	bool cut; /* the last record is neither the thread's end nor the process's */
};

struct sr_log_rank {
	struct sr_log_kinds kinds;
	int32_t number;
	bool control_only;
	struct sr_log_wanted wanted;
	struct source *sources;
	size_t sources_n;
	struct source **heap; /* sources that are not over, lowest key on top */
	size_t heap_n;
	struct source *given; /* its call was handed out: it advances at the next request */
	uint64_t size, records, holes;
};

/* ---- the records of a thread ---- */

static int keep_clock(struct source *s, uint64_t event, const struct sr_order *order)
{
	if (s->clocks_n == s->clocks_room) {
		size_t room = s->clocks_room ? 2 * s->clocks_room : 16;
		struct sr_log_clock *more = realloc(s->clocks, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->clocks = more;
		s->clocks_room = room;
	}
	s->clocks[s->clocks_n++] = (struct sr_log_clock){
	    .event = event, .found = order, .order = order ? *order : (struct sr_order){0}};
	return 0;
}

static int take_clock(struct source *s, const struct sr_entry *e)
{
	uint32_t size = (uint32_t)e->size, at;
	struct sr_order order;
	int n = sr_order_decode_event(&s->orders, e->payload, size), err;

	if (n < 0)
		return n;
	err = keep_clock(s, s->orders.event, NULL);
	for (at = (uint32_t)n; !err; at += (uint32_t)n) {
		n = sr_order_decode(&s->orders, (const uint8_t *)e->payload + at, size - at,
				    &order);
		if (n <= 0)
			return n;
		if (order.via != SR_ORDER_SHORT)
			err = keep_clock(s, s->orders.event, &order);
	}
	return err;
}

/* The payload is valid only until the next record is read. */
static int keep_exposed(struct source *s, const struct sr_entry *e)
{
	if (s->exposed_n == s->exposed_room) {
		size_t room = s->exposed_room ? 2 * s->exposed_room : 16;
		struct sr_log_exposed *more = realloc(s->exposed, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->exposed = more;
		s->exposed_room = room;
	}
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
	return 0;
}

/* Does the call return what came while it waited? Then it takes its place at its return, every other at its entry. */
static bool is_wait(enum sr_what what)
{
	switch (what) {
	case SR_WHAT_POLL:
	case SR_WHAT_POLL_EX:
	case SR_WHAT_CM_EVENT:
	case SR_WHAT_CM_CONNECT:
	case SR_WHAT_CM_REQUEST:
		return true;
	default:
		return false;
	}
}

static enum sr_log_place place_of(const struct sr_log_rank *r, const struct source *s, enum sr_what what, uint64_t sn)
{
	if (what == SR_WHAT_NOTHING)
		return r->wanted.place ? r->wanted.place(r->wanted.argument, r->wanted.rank, s->thread, sn)
				       : SR_LOG_NOT_WANTED;
	return is_wait(what) ? SR_LOG_AT_RETURN : SR_LOG_AT_ENTRY;
}

static int take_call(struct source *s, enum sr_what what, enum sr_log_place place, const struct sr_entry *e)
{
	struct sr_call_head head;
	const uint8_t *p = e->payload, *numbers;

	if (e->size < sizeof(head))
		return -EBADMSG;
	memcpy(&head, p, sizeof(head));
	if (sizeof(head) + head.in_size + head.orders * sizeof(uint64_t) > e->size)
		return -EBADMSG;
	numbers = p + e->size - head.orders * sizeof(uint64_t);
	if (head.orders)
		memcpy(&s->key, place == SR_LOG_AT_RETURN ? p + e->size - sizeof(s->key) : numbers,
		       sizeof(s->key));
	s->call = (struct sr_log_call){
	    .what = head.error == -1 ? SR_WHAT_NOTHING : what, /* cancelled: no results */
	    .thread = s->thread,
	    .is_wanted = what == SR_WHAT_NOTHING && place,
	    .sn = e->sn,
	    .site = head.site,
	    .result = head.result,
	    .in = p + sizeof(head),
	    .in_size = head.in_size,
	    .out = p + sizeof(head) + head.in_size,
	    .out_size = (size_t)(numbers - p) - sizeof(head) - head.in_size,
	};
	return 1;
}

/* Of many polls in a row that find nothing, the first one is enough. */
static bool is_idle(const struct sr_log_call *c)
{
	return c->what == SR_WHAT_POLL ? !c->result : c->what == SR_WHAT_POLL_EX && c->result;
}

static int take_matching(const struct sr_log_rank *r, struct source *s, enum sr_what what,
			 enum sr_log_place place, const struct sr_entry *e)
{
	int got = take_call(s, what, place, e);

	if (got > 0 && what)
		s->call.opcode = r->kinds.opcode[e->kind - SR_REC_CALL];
	return got;
}

static void keep_for_repeats(struct source *s, enum sr_what what, const struct sr_entry *e)
{
	struct repeated *a = &s->again;

	if ((s->call.what == SR_WHAT_NOTHING && !s->call.is_wanted) || is_idle(&s->call) || e->size > sizeof(a->payload))
		return;
	a->size = e->size;
	a->what = what;
	a->kind = e->kind;
	memcpy(a->payload, e->payload, e->size);
}

static int take_again(const struct sr_log_rank *r, struct source *s)
{
	struct repeated *a = &s->again;
	const struct sr_entry e = {
	    .kind = a->kind, .sn = a->sn++, .payload = a->payload, .size = (uint32_t)a->size};

	a->left--;
	return take_matching(r, s, a->what, place_of(r, s, a->what, e.sn), &e);
}

static bool matters(const struct sr_log_rank *r, const struct source *s, enum sr_what what, enum sr_log_place place)
{
	if (r->control_only)
		return what > SR_WHAT_DATA_PATH_END;
	return what != SR_WHAT_NOTHING || s->clocks_n || s->exposed_n || place;
}

/* Records after the last call stand before a call that was never made. */
static int take_end(struct source *s)
{
	s->over = !s->clocks_n && !s->exposed_n;
	s->call = (struct sr_log_call){.thread = s->thread, .sn = s->last_sn + 1};
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

/* 1: s->call is the next relevant call; 0: the end; -errno. */
static int advance(struct sr_log_rank *r, struct source *s)
{
	struct sr_entry *e = &s->entry;
	enum sr_log_place place;
	enum sr_what what;
	int got, err = 0;

	s->clocks_n = s->exposed_n = s->bytes_n = 0;
	if (s->again.left)
		return take_again(r, s);
	while ((got = sr_stream_next(s->stream, e)) > 0) {
		r->records++;
		s->offset = e->offset;
		s->cut = !is_end(e);
		if (e->kind >= SR_REC_CALL) {
			what = sr_log_what(&r->kinds, e->kind);
			s->last_sn = e->sn;
			s->again.size = 0;
			place = place_of(r, s, what, e->sn);
			if (!matters(r, s, what, place))
				continue;
			got = take_matching(r, s, what, place, e);
			if (got > 0)
				keep_for_repeats(s, what, e);
			return got;
		}
		if (e->kind == SR_REC_REPEAT) {
			s->last_sn = e->sn + e->count - 1;
			s->again.left = s->again.size ? e->count : 0;
			s->again.sn = e->sn;
			if (s->again.left)
				return take_again(r, s);
		}
		if (e->kind == SR_REC_CLOCK && !r->control_only)
			err = take_clock(s, e);
		else if (e->kind == SR_REC_EXPOSED && !r->control_only)
			err = keep_exposed(s, e);
		else if (e->kind == SR_REC_MARK)
			note_mark(r, e);
		if (err)
			return err;
	}
	return got < 0 ? got : take_end(s);
}

/* ---- all threads ---- */

static bool goes_before(const struct source *a, const struct source *b)
{
	return a->key != b->key ? a->key < b->key : a->thread < b->thread;
}

static void sink(struct sr_log_rank *r, size_t i)
{
	struct source *s = r->heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= r->heap_n)
			break;
		if (child + 1 < r->heap_n && goes_before(r->heap[child + 1], r->heap[child]))
			child++;
		if (!goes_before(r->heap[child], s))
			break;
		r->heap[i] = r->heap[child];
		i = child;
	}
	r->heap[i] = s;
}

static int complain(const struct sr_log_rank *r, const struct source *s, int code,
		    struct sr_error *err)
{
	if (sr_stream_warning(s->stream))
		return sr_error_set(err, code, "%s", sr_stream_warning(s->stream));
	return sr_error_set(err, code, "rank %d thread %u SN %llu: %s", r->number, s->thread,
			    (unsigned long long)s->last_sn,
			    code == -ENOMEM ? "no memory left" : "a damaged record");
}

static int open_source(struct sr_log_rank *r, struct source *s, struct sr_trace *t, uint32_t thread,
		       struct sr_error *err)
{
	int ret = sr_stream_open(&s->stream, t, r->number, thread, err);

	s->thread = thread;
	s->cut = true;
	if (!ret)
		r->size += sr_stream_size(s->stream);
	return ret;
}

static int start(struct sr_log_rank *r, struct sr_error *err)
{
	for (size_t i = 0; i < r->sources_n; i++) {
		struct source *s = &r->sources[i];
		int got = advance(r, s);

		if (got < 0)
			return complain(r, s, got, err);
		if (got)
			r->heap[r->heap_n++] = s;
	}
	for (size_t i = r->heap_n / 2; i-- > 0;)
		sink(r, i);
	return 0;
}

int sr_log_rank_open(struct sr_log_rank **rank, struct sr_trace *t, int32_t number,
		     bool control_only, const struct sr_log_wanted *wanted, struct sr_error *err)
{
	struct sr_log_rank *r = calloc(1, sizeof(*r));
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, number, &threads);
	int ret;

	*rank = NULL;
	if (!r)
		return sr_error_set(err, -ENOMEM, "no memory left");
	r->number = number;
	r->control_only = control_only;
	if (wanted)
		r->wanted = *wanted;
	r->sources = calloc(n + 1, sizeof(*r->sources));
	r->heap = calloc(n + 1, sizeof(*r->heap));
	ret = r->sources && r->heap ? 0 : sr_error_set(err, -ENOMEM, "no memory left");
	if (!ret)
		ret = sr_log_kinds_load(&r->kinds, t, number, err);
	for (size_t i = 0; i < n && !ret; i++) {
		ret = open_source(r, &r->sources[i], t, threads[i], err);
		r->sources_n++;
	}
	if (!ret)
		ret = start(r, err);
	if (ret)
		sr_log_rank_close(r);
	else
		*rank = r;
	return ret;
}

void sr_log_rank_close(struct sr_log_rank *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->sources_n; i++) {
		sr_stream_close(r->sources[i].stream);
		free(r->sources[i].clocks);
		free(r->sources[i].exposed);
		free(r->sources[i].bytes);
	}
	free(r->sources);
	free(r->heap);
	free(r);
}

static int advance_given(struct sr_log_rank *r, struct sr_error *err)
{
	int got = advance(r, r->given);

	if (got < 0)
		return complain(r, r->given, got, err);
	if (!got)
		r->heap[0] = r->heap[--r->heap_n];
	if (r->heap_n)
		sink(r, 0);
	r->given = NULL;
	return 0;
}

int sr_log_rank_next(struct sr_log_rank *r, struct sr_log_call *call, struct sr_error *err)
{
	int ret = r->given ? advance_given(r, err) : 0;

	if (ret || !r->heap_n)
		return ret;
	r->given = r->heap[0];
	*call = r->given->call;
	call->clocks = r->given->clocks;
	call->clocks_n = r->given->clocks_n;
	call->exposed = r->given->exposed;
	call->exposed_n = r->given->exposed_n;
	call->exposed_bytes = r->given->bytes;
	return 1;
}

uint64_t sr_log_rank_done(const struct sr_log_rank *r)
{
	uint64_t done = 0;

	for (size_t i = 0; i < r->sources_n; i++)
		done += r->sources[i].over ? sr_stream_size(r->sources[i].stream)
					   : r->sources[i].offset;
	return done;
}

uint64_t sr_log_rank_size(const struct sr_log_rank *r)
{
	return r->size;
}

uint64_t sr_log_rank_records(const struct sr_log_rank *r)
{
	return r->records;
}

uint64_t sr_log_rank_holes(const struct sr_log_rank *r)
{
	return r->holes;
}

size_t sr_log_rank_cut(const struct sr_log_rank *r)
{
	size_t cut = 0;

	for (size_t i = 0; i < r->sources_n; i++)
		cut += r->sources[i].cut;
	return cut;
}

size_t sr_log_rank_threads(const struct sr_log_rank *r)
{
	return r->sources_n;
}

uint32_t sr_log_rank_thread(const struct sr_log_rank *r, size_t i,
			    const struct sr_stream_place **places, size_t *n)
{
	*places = sr_stream_places(r->sources[i].stream, n);
	return r->sources[i].thread;
}
