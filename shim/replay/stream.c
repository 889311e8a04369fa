/* SPDX-License-Identifier: BSD-2-Clause */
/* stream.c: reads a thread's records, and waits for its tickets; see own.h. */
#include <string.h>

#include "logd/base/rawsys.h"
#include "logd/ring/ring.h"
#include "shim/core/run_token.h"
#include "shim/memory/heap.h"
#include "shim/replay/group/group.h"
#include "shim/replay/own.h"
#include "shim/replay/watch.h"
#include "shim/replay/tickets.h"
#include "shim/replay/trial.h"
#include "shim/signals/signals.h"
#include "shim/threads/program_threads.h"

/* False: the recording does not have this thread. */
static bool attach_ring(struct sr_thread *t)
{
	const struct sr_replay_control *c = sr_replay_page;
	const uint32_t place = t->number < SR_REPLAY_THREADS ? c->ring_of[t->number] : 0;

	return place && !sr_ring_map(&t->ring, c->rings_fd, (place - 1) * sr_ring_file_bytes(c->ring_bytes),
				     c->ring_bytes, SR_RING_CONSUMER, NULL);
}

void sr_replay_start_thread(struct sr_thread *t)
{
	t->started = true;
	if (t->sn < sr_replay_page->sns_before)
		t->sn = sr_replay_page->sns_before;
	if (t->ended && !sr_thread_revive(t)) {
		t->silent = true;
		return;
	}
	sr_thread_number(t);
	/* The thread existed before the recording began. */
	if (!t->signals.queue)
		sr_signals_thread_begins(t->signals.hidden, false);
	sr_thread_watch_end(t);
	t->stream = sr_alloc_zeroed(sizeof(*t->stream));
	if (t->number < SR_REPLAY_THREADS)
		atomic_store(&sr_replay_page->thread[t->number].tid, (int32_t)sr_sys_gettid());
	if (!t->stream || !attach_ring(t))
		t->silent = true;
}

/*
 * What has been read is given back to the feeder in portions: each time costs a barrier, and takes
 * cache lines from the CPU on which the feeder writes.
 */
#define RELEASE_SHARE 16 /* of the ring */
/* The feeder wrote the records on another CPU.  So far ahead they are fetched. */
#define FETCH_AHEAD   384

static void release(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;

	if (s->unreleased)
		sr_ring_release(&t->ring, s->unreleased);
	s->unreleased = 0;
}

/* Waits for records behind those that were read.  Returns false when the producer is gone. */
static bool await_pieces(struct sr_thread *t)
{
	const void *records;

	release(t);
	while (!(t->stream->available = sr_ring_peek(&t->ring, &records)))
		if (sr_ring_wait(&t->ring, -1) < 0)
			return false;
	return true;
}

/* Reads the ring's next record or piece of one.  Returns false when the producer is gone. */
static bool next_piece(struct sr_thread *t, const struct sr_record **piece)
{
	struct sr_replay_stream *s = t->stream;
	const unsigned char *at;
	size_t size;

	if (s->unreleased >= sr_ring_bytes(&t->ring) / RELEASE_SHARE)
		release(t);
	if (!s->available && !await_pieces(t))
		return false;
	at = t->ring.data + ((t->ring.tail + s->unreleased) & t->ring.mask);
	__builtin_prefetch(at + FETCH_AHEAD);
	*piece = (const struct sr_record *)at;
	size = sr_record_padded((*piece)->size);
	s->unreleased += size;
	s->available -= size;
	return true;
}

static bool next_record(struct sr_thread *t, struct sr_replay_record *r)
{
	struct sr_buf *whole = &t->stream->whole;
	const struct sr_record *piece;
	size_t n;

	whole->len = 0;
	do {
		if (!next_piece(t, &piece))
			return false;
		n = piece->size - sizeof(*piece);
		if (!whole->len && !(piece->flags & SR_RECORD_MORE)) {
			*r =
			    (struct sr_replay_record){piece->kind, (const uint8_t *)(piece + 1), n};
			return true;
		}
		sr_put_raw(whole, piece + 1, n);
	} while (piece->flags & SR_RECORD_MORE);
	*r = (struct sr_replay_record){piece->kind, whole->p, whole->len};
	return true;
}

/* Takes a note about a later event; it is not a record to wait for. */
static bool is_taken(struct sr_replay_stream *s)
{
	struct sr_token_payload p;

	if (s->next.kind != SR_REC_RUN_TOKEN || s->next.size < sizeof(p))
		return false;
	memcpy(&p, s->next.payload, sizeof(p));
	if (p.what == SR_RUN_TOKEN_PREEMPTED) {
		s->preempted = p.event;
		s->preempted_from = p.other;
	}
	s->parts |= p.what == SR_RUN_TOKEN_PARTS;
	return p.what == SR_RUN_TOKEN_PREEMPTED || p.what == SR_RUN_TOKEN_PARTS;
}

static void keep_passed(struct sr_replay_stream *s)
{
	if (s->next.size >= sizeof(s->passed))
		memcpy(&s->passed, s->next.payload, sizeof(s->passed));
}

static struct sr_replay_record record_of(const struct sr_replay_turn *turn)
{
	return (struct sr_replay_record){turn->kind, turn->payload, turn->size};
}

/* The next record stands for many calls: goes on with that of the first one. */
static void read_turns(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;
	struct sr_replay_turns *turns = &s->turns[s->reads_second];

	memcpy(turns, s->next.payload, sizeof(*turns));
	s->next = record_of(&turns->call[0]);
	s->read_turns = turns;
	s->reads_second = !s->reads_second;
}

static void keep_pick(struct sr_replay_stream *s)
{
	struct sr_replay_pick p;

	if (s->next.size < sizeof(p))
		return;
	memcpy(&p, s->next.payload, sizeof(p));
	s->picks[p.sn % 2] = p;
}

/* Nothing waits for it, and nothing asks for it. */
static bool is_for_others(uint16_t kind)
{
	return kind == SR_REC_PAD || kind == SR_REC_CLOCK || kind == SR_REC_BEHIND || kind == SR_REC_PICKED ||
	       kind == SR_REC_CHANGED || kind == SR_REC_CONNECTION || kind == SR_REC_EXPOSED_COUNTS;
}

bool sr_replay_peek(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;

	if (!s->peeked)
		s->notes_due = s->notes.len;
	while (!s->peeked) {
		if (!next_record(t, &s->next))
			return false;
		if (s->next.kind == SR_REC_REPLAY_TURNS)
			read_turns(t);
		if (sr_group_is_note(s->next.kind))
			sr_group_note(&s->notes, s->next.kind, s->next.payload, s->next.size);
		else if (s->next.kind == SR_REC_REPLAY_PICK)
			keep_pick(s);
		else if (s->next.kind == SR_REC_PASSED)
			keep_passed(s);
		else
			s->peeked = !is_taken(s) && !is_for_others(s->next.kind);
	}
	if (s->next.kind == SR_REC_PLACE && !s->awaits_place)
		sr_replay_await_place(t);
	/* Perhaps: the next heap operation looks whether the signal came in front of it. */
	t->signals.due_at_heap = s->next.kind == SR_REC_SIGNAL;
	return true;
}

/*
 * The record stays while the call is answered, although the records behind it may be looked at meanwhile, which gives its
 * place in the ring back to the feeder.  And a REPEAT may follow, which stands for it again.
 */
static void keep_taken(struct sr_replay_stream *s)
{
	struct sr_buf taken = s->taken;

	if (s->next.payload == s->whole.p) {
		s->taken = s->whole;
		s->whole = taken;
	} else {
		s->taken.len = 0;
		sr_put_raw(&s->taken, s->next.payload, s->next.size);
	}
	s->last = (struct sr_replay_record){s->next.kind, s->taken.p, s->next.size};
}

/* The next record begins calls that come again; false: it stands for itself. */
static bool begin_repeats(struct sr_replay_stream *s)
{
	s->turning = s->read_turns;
	s->read_turns = NULL;
	if (s->turning) {
		s->repeats_left = s->turning->calls;
		s->turn = s->turning->period - 1;
	} else if (s->next.kind == SR_REC_REPEAT && s->next.size == sizeof(struct sr_repeat_payload)) {
		s->repeats_left = ((const struct sr_repeat_payload *)s->next.payload)->count;
	}
	for (uint32_t i = 0; i < SR_CYCLE_PERIOD; i++)
		s->idle[i].known = false;
	return s->repeats_left;
}

static void repeat(struct sr_replay_stream *s)
{
	s->repeats_left--;
	s->turn = sr_replay_next_turn(s);
	if (s->turning)
		s->last = record_of(&s->turning->call[s->turn]);
}

/* Takes the record of the current call; SR_REC_REPEAT stands for the last record again. */
bool sr_replay_next_call(struct sr_thread *t, struct sr_replay_record *r)
{
	struct sr_replay_stream *s = t->stream;

	s->passed = 0;
	if (!s->repeats_left) {
		if (!sr_replay_peek(t))
			return false;
		s->peeked = false;
		if (!begin_repeats(s))
			keep_taken(s);
	}
	if (s->repeats_left)
		repeat(s);
	*r = s->last;
	return true;
}

static bool is_repeated_next(const struct sr_replay_stream *s)
{
	return !s->read_turns && s->next.kind == SR_REC_REPEAT;
}

bool sr_replay_peek_call(struct sr_thread *t, struct sr_replay_record *r)
{
	struct sr_replay_stream *s = t->stream;

	if (!s->repeats_left) {
		if (!sr_replay_peek(t))
			return false;
		*r = is_repeated_next(s) ? s->last : s->next;
	} else {
		*r = s->turning ? record_of(&s->turning->call[sr_replay_next_turn(s)]) : s->last;
	}
	return true;
}

void sr_replay_part(struct sr_thread *t)
{
	if (t->stream->parts)
		sr_replay_end_ticket(t);
	t->stream->parts = false;
}

void sr_replay_end_ticket(struct sr_thread *t)
{
	if (t->stream->has_ticket)
		sr_ticket_over(t->stream->has_ticket);
	t->stream->has_ticket = 0;
}

void sr_replay_await_ticket(struct sr_thread *t, uint64_t event)
{
	sr_replay_end_ticket(t);
	if (event == t->stream->preempted)
		sr_ticket_wait_overtaking(t->number, event, t->stream->preempted_from);
	else
		sr_ticket_wait(t->number, event);
}

/* The event has happened: other threads may continue. */
void sr_replay_let_go(uint64_t event)
{
	if (sr_replay_page->serial)
		sr_ticket_over(event);
	else
		sr_ticket_done(event);
}

/*
 * The event has happened.  If threads run one at a time, the thread keeps the ticket for the
 * program code that follows.
 */
void sr_replay_go_on(struct sr_thread *t, uint64_t event)
{
	if (sr_replay_page->serial)
		t->stream->has_ticket = event;
	else
		sr_ticket_done(event);
}

/* Is the next record a run-token record?  That is no record to wait for. */
static bool peek_run_token(struct sr_thread *t, struct sr_token_payload *p)
{
	struct sr_replay_stream *s = t->stream;

	if (t->silent || s->repeats_left || !sr_replay_peek(t) || s->next.kind != SR_REC_RUN_TOKEN ||
	    s->next.size < sizeof(*p))
		return false;
	memcpy(p, s->next.payload, sizeof(*p));
	return true;
}

static bool is_at_access(const struct sr_token_payload *p)
{
	return p->what == SR_RUN_TOKEN_YIELDED || p->what == SR_RUN_TOKEN_REJOINED;
}

void sr_replay_note_stop(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;
	/* A stop that is found late is still one behind the last call. */
	const uint64_t behind = atomic_load_explicit(&sr_replay_page->thread[t->number].calls, memory_order_relaxed);

	if (s->stops_behind != behind)
		s->stops = 0;
	s->stops_behind = behind;
	sr_group_stop(t->number, behind, ++s->stops);
}

/* Here the thread let others run, or had done so, until `event`. */
static void take_run_token(struct sr_thread *t, const struct sr_token_payload *p)
{
	t->stream->peeked = false;
	if (sr_run_token_is_stop(p->what))
		sr_replay_note_stop(t);
	sr_watch_others_run(t);
	sr_replay_end_ticket(t);
	if (p->arrived)
		sr_ticket_amidst(t->number, p->arrived);
	if (p->event) {
		sr_replay_await_ticket(t, p->event);
		sr_replay_go_on(t, p->event);
	}
	if (p->what != SR_RUN_TOKEN_REACQUIRED && p->what != SR_RUN_TOKEN_REJOINED)
		return;
	atomic_store(&sr_replay_page->late_thread, t->number);
	atomic_store(&sr_replay_page->late_sn, t->sn + 1);
	atomic_fetch_add(&sr_replay_page->late, 1);
}

bool sr_replay_take_run_tokens(struct sr_thread *t)
{
	struct sr_token_payload p;
	bool any = false;

	if (!sr_replay_page->serial)
		return false;
	while (peek_run_token(t, &p) && !is_at_access(&p) && p.what != SR_RUN_TOKEN_AT_HEAP) {
		take_run_token(t, &p);
		any = true;
		/* What comes next is about its next call. */
		if (p.what == SR_RUN_TOKEN_PARTED)
			break;
	}
	return any;
}

static bool comes_place(struct sr_thread *t)
{
	return !t->silent && !t->stream->repeats_left && sr_replay_peek(t) && t->stream->next.kind == SR_REC_PLACE;
}

static bool misses_place(struct sr_thread *t)
{
	bool missed = comes_place(t);

	if (missed)
		sr_replay_miss_place(t);
	return missed;
}

void sr_replay_take_run_tokens_at_call(struct sr_thread *t)
{
	do
		sr_replay_take_run_tokens(t);
	while (misses_place(t));
}

/* Its stop there would have been in front of this operation: what waits for its turn must not come behind. */
void sr_replay_miss_places_at_heap(struct sr_thread *t)
{
	while (comes_place(t) && t->stream->place.p.heap_position <= t->heap_ops) {
		sr_replay_miss_place(t);
		sr_replay_run_again(t);
	}
}

void sr_replay_wait_at_heap(struct sr_thread *t)
{
	struct sr_token_payload p;

	while (sr_replay_page->serial && peek_run_token(t, &p) && p.what == SR_RUN_TOKEN_AT_HEAP && p.other == (uint32_t)t->heap_ops) {
		take_run_token(t, &p);
		sr_replay_run_again(t);
		t->waited_at_heap = true;
	}
}

bool sr_replay_peek_yield(struct sr_thread *t, struct sr_token_payload *p)
{
	return sr_replay_page->serial && peek_run_token(t, p) && is_at_access(p);
}

void sr_replay_run_again(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;

	if (!sr_replay_take_run_tokens(t) && sr_replay_peek(t) && s->next.kind == SR_REC_REPLAY_END)
		sr_replay_end_of_stream(t, &s->next, 0, NULL);
}

bool sr_replay_yields(struct sr_thread *t, uint64_t accesses, uintptr_t site)
{
	struct sr_token_payload p;
	enum sr_heap before;
	bool has = false;

	if (t->depth || t->ended || !t->started || sr_trial_has_begun())
		return false;
	before = sr_enter(t);
	while (sr_replay_peek_yield(t, &p) && p.other == accesses) {
		take_run_token(t, &p);
		sr_replay_run_again(t);
		has = true;
	}
	sr_leave(t, before);
	return has;
}

/*
 * In a group: waits for the calls of other ranks that this call depends on.  Those ranks do not
 * wait for later events of this process in turn: in the recording they had made these calls by
 * then.
 */
void sr_replay_await_group(struct sr_thread *t, uint16_t found, void *site)
{
	struct sr_replay_stream *s = t->stream;
	/* Those in front of a record that was only looked at are of a later call, and may need that this one ends. */
	size_t due = s->peeked ? s->notes_due : s->notes.len;

	s->notes_due = 0;
	if (!due || sr_group_wait_for_dependencies(t, &s->notes, due))
		return;
	sr_replay_check_transfers(sr_group_not_transferred());
	sr_replay_claim_report();
	sr_replay_page->report.found_site = (uintptr_t)site;
	sr_replay_diverge_from_group(t, SR_REPLAY_PEER_EXITED, found);
}
