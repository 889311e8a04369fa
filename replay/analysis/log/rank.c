/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/rank.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "logd/trace/read_trace.h"
#include "shim/core/order.h"
#include "shim/core/call.h"

/* The thread's last call, as SR_REC_REPEAT stands for it. */
struct repeated {
	uint8_t payload[SR_REPEAT_MAX];
	size_t size; /* 0: it does not matter, or is too long to be repeated */
	enum sr_what what;
	uint16_t kind;
	uint64_t left, sn; /* how often it is still to be repeated, and the next SN */
};

/* Orders that were found together, in front of the thread's next call. */
struct found {
	uint64_t behind;        /* behind this event */
	uint64_t first;         /* their first event of the rank's clock */
	size_t clocks, exposed; /* so many of the source's are theirs, with what came before; 0: there are none */
};

/* A thread's stream, at its next relevant call. */
struct source {
	struct sr_stream *stream;
	uint32_t thread;
	uint64_t key;   /* number of the call's event; without one, of the last event */
	uint64_t clock; /* of the rank's clock: what was found behind the same event comes in this order; 0: a call */
	uint64_t last;  /* event number that the stream has shown last */
	struct sr_log_call call;
	struct sr_entry entry;
	struct sr_order_stream orders;
	struct sr_log_clock *clocks;
	size_t clocks_n, clocks_room;
	struct sr_log_exposed *exposed;
	size_t exposed_n, exposed_room;
	uint8_t *bytes; /* payloads of SR_REC_EXPOSED */
	size_t bytes_n, bytes_room;
	struct found found;
	bool holds; /* a part was handed out: `entry` is still to be taken */
	uint64_t last_sn, offset;
	struct repeated again;
	bool over;
	bool cut; /* the last record is neither the thread's end nor the process's */
};

struct sr_log_rank {
	struct sr_log_kinds kinds;
	int32_t number;
	bool control_only, has_places;
	struct sr_log_wanted wanted;
	struct source *sources;
	size_t sources_n;
	struct source **heap; /* sources that are not over, lowest key on top */
	size_t heap_n;
	struct source *given; /* its call was handed out: it advances at the next request */
	uint64_t size, records, holes;
	struct sr_picked_payload *picked;
	size_t picked_n, picked_room;
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

/* 1: what was found before comes first, since other threads may have gone on in between. */
static int begin_found(const struct sr_log_rank *r, struct source *s, uint64_t event, uint64_t before)
{
	struct found *f = &s->found;

	if (r->has_places && f->clocks && (f->behind != s->last || event != before + 1))
		return 1;
	if (!f->clocks)
		*f = (struct found){.behind = s->last, .first = event};
	return 0;
}

static void end_found(struct source *s)
{
	s->found.clocks = s->clocks_n;
	s->found.exposed = s->exposed_n;
}

/* 1: the orders found before come first, and the record is still to be taken. */
static int take_clock(const struct sr_log_rank *r, struct source *s, const struct sr_entry *e)
{
	uint32_t size = (uint32_t)e->size, at;
	struct sr_order order;
	const uint64_t before = s->orders.event;
	int n = sr_order_decode_event(&s->orders, e->payload, size), err;
	const bool found = n > 0 && size > (uint32_t)n;

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
	/* The values that orders were found with. */
	if (s->found.clocks && s->found.clocks == s->clocks_n)
		end_found(s);
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
static uint64_t key_of(const struct source *s, enum sr_log_place place, const struct sr_entry *e, unsigned int orders)
{
	return !orders ? s->last : number_at(e, place == SR_LOG_AT_RETURN ? 1 : orders);
}

static void place_at(struct source *s, uint64_t key, uint64_t clock)
{
	if (s->key != key || clock)
		s->clock = clock;
	s->key = key;
}

/* What was found in front of it was found at its place, if not before. */
static void place_call(struct source *s, uint64_t key)
{
	place_at(s, key, s->found.clocks && s->found.behind == key ? s->found.first : 0);
}

/* What was found in front of the call has a place of its own. */
static int give_found(struct source *s, uint64_t sn)
{
	place_at(s, s->found.behind, s->found.first);
	s->holds = true;
	s->call = (struct sr_log_call){.thread = s->thread,
				       .sn = sn,
				       .is_part = true,
				       .clocks = s->clocks,
				       .clocks_n = s->found.clocks,
				       .exposed = s->exposed,
				       .exposed_n = s->found.exposed,
				       .exposed_bytes = s->bytes};
	return 1;
}

/* What was handed out is over. */
static void drop_given(struct source *s)
{
	const struct found *f = &s->found;

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

static int take_call(const struct sr_log_rank *r, struct source *s, enum sr_what what, enum sr_log_place place,
		     const struct sr_entry *e)
{
	struct sr_call_head head;
	const uint8_t *p = e->payload, *numbers;
	uint64_t key;

	if (!get_head(e, &head))
		return -EBADMSG;
	key = key_of(s, place, e, head.orders);
	if (r->has_places && s->found.clocks && s->found.behind < key)
		return give_found(s, e->sn);
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

static int take_matching(const struct sr_log_rank *r, struct source *s, enum sr_what what,
			 enum sr_log_place place, const struct sr_entry *e)
{
	int got = take_call(r, s, what, place, e);

	if (got > 0 && what && !s->holds)
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
	/* A writer puts nothing in front of a repetition. */
	s->found.clocks = 0;
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
static int take_record_of_call(struct sr_log_rank *r, struct source *s, const struct sr_entry *e)
{
	enum sr_what what = sr_log_what(&r->kinds, e->kind);
	enum sr_log_place place = place_of(r, s, what, e->sn);
	struct sr_call_head head;
	int got;

	if (sr_entry_last_sn(e) > s->last_sn)
		s->last_sn = sr_entry_last_sn(e);
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

static void take_token(struct source *s, const struct sr_entry *e)
{
	struct sr_token_payload p;

	if (e->size < sizeof(p))
		return;
	memcpy(&p, e->payload, sizeof(p));
	if (p.event)
		s->last = p.event;
}

static void take_behind(struct source *s, const struct sr_entry *e)
{
	if (e->size >= sizeof(s->last))
		memcpy(&s->last, e->payload, sizeof(s->last));
}

static int keep_picked(struct sr_log_rank *r, const struct sr_entry *e)
{
	struct sr_picked_payload *p;

	if (e->size < sizeof(*p))
		return -EBADMSG;
	p = sr_grow((void **)&r->picked, r->picked_n, &r->picked_room, sizeof(*p));
	if (!p)
		return -ENOMEM;
	memcpy(p, e->payload, sizeof(*p));
	r->picked_n++;
	return 0;
}

struct sr_picked_payload *sr_log_rank_take_picked(struct sr_log_rank *r, size_t *n)
{
	struct sr_picked_payload *picked = r->picked;

	*n = r->picked_n;
	r->picked = NULL;
	r->picked_n = r->picked_room = 0;
	return picked;
}

/* A record that is no call.  1: s->call is what was found before it; 0; -errno. */
static int take_note(struct sr_log_rank *r, struct source *s, const struct sr_entry *e)
{
	int got;

	switch (e->kind) {
	case SR_REC_CLOCK:
		got = r->control_only ? 0 : take_clock(r, s, e);
		return got > 0 ? give_found(s, s->last_sn + 1) : got;
	case SR_REC_EXPOSED:
		return r->control_only ? 0 : keep_exposed(s, e);
	case SR_REC_RUN_TOKEN:
		take_token(s, e);
		return 0;
	case SR_REC_BEHIND:
		take_behind(s, e);
		return 0;
	case SR_REC_MARK:
		note_mark(r, e);
		return 0;
	case SR_REC_PICKED:
		return r->control_only ? keep_picked(r, e) : 0;
	default:
		return 0;
	}
}

static int next_entry(struct sr_log_rank *r, struct source *s)
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

/* 1: s->call is the next relevant call, or a part; 0: the end; -errno. */
static int advance(struct sr_log_rank *r, struct source *s)
{
	const struct sr_entry *e = &s->entry;
	int got, taken;

	drop_given(s);
	if (s->again.left)
		return take_again(r, s);
	while ((got = next_entry(r, s)) > 0) {
		if (e->kind == SR_REC_REPEAT) {
			s->last_sn = sr_entry_last_sn(e);
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

/* ---- all threads ---- */

static bool goes_before(const struct source *a, const struct source *b)
{
	if (a->key != b->key)
		return a->key < b->key;
	return a->clock != b->clock ? a->clock < b->clock : a->thread < b->thread;
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

	if (!ret)
		sr_stream_fold_cycles(s->stream);
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
	r->has_places = sr_trace_has_places(t, number);
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
	free(r->picked);
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
