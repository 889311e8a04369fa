/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.c: a call is answered from the trace.
 *
 * The arguments are encoded as the recorder encodes them and compared with the
 * record, byte for byte; then the recorded results are stored where the program
 * expects them.  The real function is not called.  The first difference ends
 * the process, with a report in the control page for `sreplay replay` to put
 * into words.
 */
#include "shim/replay/engine.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "logd/ring/ring.h"
#include "shim/replay/group/group.h"
#include "shim/replay/tickets.h"
#include "logd/trace/exposed_records.h"
#include "shim/core/run_token.h"
#include "shim/core/engine.h"
#include "shim/process/children.h"
#include "shim/kernel/cpuid_trap.h"
#include "shim/files/fds.h"
#include "shim/memory/heap.h"
#include "shim/threads/main_stack.h"
#include "shim/calls/trap/trap.h"
#include "shim/core/order.h"
#include "shim/files/own_fds.h"
#include "shim/threads/program_threads.h"
#include "logd/base/say.h"
#include "shim/signals/signals.h"
#include "shim/threads/stdio_order.h"
#include "shim/threads/stdio_pin.h"
#include "shim/core/thread.h"
#include "shim/kernel/tsc.h"
#include "shim/verbs/regions.h"

struct record {
	uint16_t kind;
	const uint8_t *payload;
	size_t size;
};

/* Of a loop that waits, the loads; and how often they may come in vain. */
#define LOOKS    8
#define VAIN_MAX 300000

/* A thread's stream; in the shim's heap, behind sr_thread.stream. */
struct sr_replay_stream {
	size_t unreleased;     /* bytes of the ring that the last record occupies */
	struct sr_buf whole;   /* a record that came in pieces */
	uint64_t repeats_left; /* of the last call */
	uint16_t last_kind;
	struct sr_buf last;

	/*
	 * Of threads that take turns.  The event whose turn the thread has, in the program's code;
	 * and one that did not wait for the thread that had the turn before.  0: none.
	 */
	uint64_t has_ticket, preempted;
	uint32_t preempted_from;

	/* The handler of this signal is about to run; 0: of none. */
	uint32_t awaited;
	uint64_t awaited_mask;

	/* The record after those, if it was looked at already, with what stands in front of it. */
	bool peeked;
	struct record next;
	struct sr_buf notes;
	/* A exposed region's event has been taken of it; the payload is looked at until the next. */
	struct sr_exposed_records regions;
	/* Looks at memory that nothing will change any more before the next call. */
	struct {
		uint64_t pc, addr;
	} looks[LOOKS];
	uint32_t looks_at;
	uint64_t vain;
};

static struct sr_replay_control *control;

bool sr_replay_wanted(void)
{
	uint64_t magic = 0;

	return sr_syscall(SYS_pread64, SR_REPLAY_FD, SR_ARG(&magic), sizeof(magic), 0, 0, 0) ==
		   sizeof(magic) &&
	       magic == SR_REPLAY_MAGIC;
}

/* ---------------------------------------------------------------- the end */

static void __attribute__((noreturn)) end(enum sr_replay_outcome outcome, int status)
{
	uint32_t running = SR_REPLAY_RUNNING;

	/* The first word stands.  Release: who sees the outcome sees the report. */
	atomic_compare_exchange_strong_explicit(&control->outcome, &running, outcome,
						memory_order_release, memory_order_relaxed);
	/* What the program printed before is part of what a developer wants to see. */
	if (outcome != SR_REPLAY_DIED)
		fflush(stdout);
	for (;;)
		sr_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

static void __attribute__((noreturn)) sleep_for_ever(void)
{
	const struct timespec long_time = {.tv_sec = 3600};

	for (;;)
		sr_sys_nanosleep(&long_time);
}

/* There is one report, the first one's: a thread that comes later stays here until all end. */
static void claim_report(void)
{
	uint32_t me = (uint32_t)sr_sys_gettid(), holder = 0;

	if (!atomic_compare_exchange_strong(&control->reporting, &holder, me) && holder != me)
		sleep_for_ever();
}

static void __attribute__((noreturn))
diverge(struct sr_thread *t, enum sr_replay_outcome outcome, uint16_t expected, uint16_t found)
{
	claim_report();
	control->report.thread = t->number;
	control->report.sn = t->sn;
	control->report.expected = expected;
	control->report.found = found;
	end(outcome, SR_REPLAY_EXIT_DIVERGED);
}

static void show(uint8_t *shown, uint32_t *size, const uint8_t *in, size_t in_size)
{
	*size = (uint32_t)in_size;
	memcpy(shown, in, in_size < SR_REPLAY_BYTES ? in_size : SR_REPLAY_BYTES);
}

/* ------------------------------------------------------------- the stream */

static void start_thread(struct sr_thread *t)
{
	int fd;

	t->started = true;
	if (t->ended && !sr_thread_revive(t)) {
		t->silent = true;
		return;
	}
	sr_thread_number(t);
	/* One that was there before the recording. */
	if (!t->signals.queue)
		sr_signals_thread_begins(t->signals.hidden, false);
	sr_thread_watch_end(t);
	t->stream = sr_alloc_zeroed(sizeof(*t->stream));
	fd = t->number < control->threads ? control->stream_fd[t->number] : -1;
	if (t->number < SR_REPLAY_THREADS)
		atomic_store(&control->thread[t->number].tid, (int32_t)sr_sys_gettid());
	if (!t->stream || fd < 0 || sr_ring_attach(&t->ring, fd, SR_RING_CONSUMER))
		t->silent = true; /* a thread that the recording does not have */
}

/* The ring's next record, one piece; false when the producer is gone. */
static bool next_piece(struct sr_thread *t, const struct sr_record **piece)
{
	const void *records;

	sr_ring_release(&t->ring, t->stream->unreleased);
	t->stream->unreleased = 0;
	while (!sr_ring_peek(&t->ring, &records))
		if (sr_ring_wait(&t->ring, -1) < 0)
			return false;
	*piece = records;
	t->stream->unreleased = sr_record_padded((*piece)->size);
	return true;
}

static bool next_record(struct sr_thread *t, struct record *r)
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
			*r = (struct record){piece->kind, (const uint8_t *)(piece + 1), n};
			return true;
		}
		sr_put_raw(whole, piece + 1, n);
	} while (piece->flags & SR_RECORD_MORE);
	*r = (struct record){piece->kind, whole->p, whole->len};
	return true;
}

/* A note on an event to come. */
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
	return p.what == SR_RUN_TOKEN_PREEMPTED;
}

/* s->next is the record that comes after the repeats of the last one; false: there is none. */
static bool peek(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;

	while (!s->peeked) {
		if (!next_record(t, &s->next))
			return false;
		if (sr_group_is_note(s->next.kind))
			sr_group_note(&s->notes, s->next.kind, s->next.payload, s->next.size);
		else
			s->peeked = !is_taken(s) && s->next.kind != SR_REC_PAD &&
				    s->next.kind != SR_REC_CLOCK &&
				    s->next.kind != SR_REC_CONNECTION &&
				    s->next.kind != SR_REC_EXPOSED_COUNTS &&
				    s->next.kind != SR_REC_EXEC;
	}
	return true;
}

/* ------------------------------------------------------------------ turns */

static void pass_ticket(struct sr_thread *t)
{
	if (t->stream->has_ticket)
		sr_ticket_over(t->stream->has_ticket);
	t->stream->has_ticket = 0;
}

static void await_ticket(struct sr_thread *t, uint64_t event)
{
	pass_ticket(t);
	if (event == t->stream->preempted)
		sr_ticket_wait_overtaking(t->number, event, t->stream->preempted_from);
	else
		sr_ticket_wait(t->number, event);
}

/* The event has happened; others go on. */
static void let_go(uint64_t event)
{
	if (control->serial)
		sr_ticket_over(event);
	else
		sr_ticket_done(event);
}

/* The event has happened; what the program does then is part of the turn, if threads take turns. */
static void go_on(struct sr_thread *t, uint64_t event)
{
	if (control->serial)
		t->stream->has_ticket = event;
	else
		sr_ticket_done(event);
}

/* In front of what comes next: the thread was in the program's code from this event on. */
static void take_run_tokens(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;
	struct sr_token_payload p;

	if (!control->serial)
		return;
	while (!t->silent && !s->repeats_left && peek(t) && s->next.kind == SR_REC_RUN_TOKEN &&
	       s->next.size >= sizeof(p)) {
		memcpy(&p, s->next.payload, sizeof(p));
		s->peeked = false;
		pass_ticket(t);
		if (p.arrived)
			sr_ticket_amidst(t->number, p.arrived);
		await_ticket(t, p.event);
		go_on(t, p.event);
		if (p.what != SR_RUN_TOKEN_REACQUIRED)
			continue;
		atomic_store(&control->late_thread, t->number);
		atomic_store(&control->late_sn, t->sn + 1);
		atomic_fetch_add(&control->late, 1);
	}
}

/* A device did not do again what this call did, which may lie behind. */
static void end_not_transferred(const struct sr_group_call *call)
{
	if (!call)
		return;
	claim_report();
	sr_report_call(&control->report, call);
	end(SR_REPLAY_NOT_TRANSFERRED, SR_REPLAY_EXIT_DIVERGED);
}

/*
 * In a group: until the other ranks are where they were when the call returned.  What
 * happened later in this process cannot be waited for by them: they were there already.
 */
static void hold(struct sr_thread *t, uint16_t found, void *site)
{
	if (!t->stream->notes.len || sr_group_hold(t, &t->stream->notes))
		return;
	end_not_transferred(sr_group_not_transferred());
	claim_report();
	control->report.found_site = (uintptr_t)site;
	diverge(t, SR_REPLAY_PEER_EXITED, found, found);
}

/* ---------------------------------------------------------------- exposed regions */

/* A load (or a call, at found_site) came where the recording has another load. */
static void __attribute__((noreturn))
miss_load(struct sr_thread *t, const struct sr_exposed_event *expected, uint16_t found,
	  uint64_t found_site, uint64_t found_address)
{
	claim_report();
	control->report.expected_site = expected->pc;
	control->report.expected_address = expected->addr;
	control->report.found_site = found_site;
	control->report.found_address = found_address;
	diverge(t, SR_REPLAY_MISSED_LOAD, SR_REC_EXPOSED, found);
}

/* The event of a record that comes next, or NULL. */
static const struct sr_exposed_event *next_event(struct sr_thread *t)
{
	struct sr_replay_stream *s = t->stream;

	if (s->repeats_left || !peek(t) || s->next.kind != SR_REC_EXPOSED)
		return NULL;
	if (!sr_exposed_records_decode(&s->regions, s->next.payload, s->next.size))
		diverge(t, SR_REPLAY_BAD_RECORD, SR_REC_EXPOSED, SR_REC_EXPOSED);
	return &s->regions.event;
}

/*
 * A loop that comes back to the same loads, while the recording has nothing more
 * to show it before the next call, and left it: this one will not.
 */
static void count_look(struct sr_thread *t, const struct sr_exposed_event *now)
{
	struct sr_replay_stream *s = t->stream;
	bool again = false;

	for (int i = 0; i < LOOKS; i++)
		again = again || (s->looks[i].pc == now->pc && s->looks[i].addr == now->addr);
	if (!again) {
		s->looks[s->looks_at % LOOKS].pc = now->pc;
		s->looks[s->looks_at++ % LOOKS].addr = now->addr;
		s->vain = 0;
	}
	if (++s->vain < VAIN_MAX || !s->peeked || s->next.kind < SR_REC_CALL)
		return;
	claim_report();
	control->report.found_site = now->pc;
	control->report.found_address = now->addr;
	if (s->next.size >= sizeof(struct sr_call_head))
		control->report.expected_site =
		    ((const struct sr_call_head *)s->next.payload)->site;
	diverge(t, SR_REPLAY_WAITS, s->next.kind, SR_REC_EXPOSED);
}

/* struct sr_exposed_hooks: in a fault's handler, or around a call. */
static bool recorded_event(const struct sr_exposed_event *now, struct sr_exposed_event *e)
{
	struct sr_thread *t = &sr_self;
	const struct sr_exposed_event *next;
	enum sr_heap before = sr_enter(t);
	bool due;

	if (!t->started)
		start_thread(t);
	next = t->silent || t->ended ? NULL : next_event(t);
	due = next && sr_exposed_is_due(next, now);
	if (due && next->addr && now->addr && (next->addr ^ now->addr) >> 12)
		miss_load(t, next, SR_REC_EXPOSED, now->pc, now->addr);
	if (due) {
		*e = *next;
		t->stream->peeked = false;
		t->stream->vain = 0;
		hold(t, SR_REC_EXPOSED, (void *)now->pc);
		sr_group_seen(t, e);
	} else if (!next && now->pc && t->stream) {
		count_look(t, now);
	}
	sr_leave(t, before);
	return due;
}

/* In front of a call's record: regions that it makes, and nothing that was to come before. */
static void pass_exposed_records(struct sr_thread *t, uint16_t found, void *site)
{
	struct sr_replay_stream *s = t->stream;
	struct sr_region_payload region;
	const struct sr_exposed_event *missed;

	while (!s->repeats_left && peek(t) && s->next.kind == SR_REC_REGION &&
	       s->next.size >= sizeof(region)) {
		memcpy(&region, s->next.payload, sizeof(region));
		s->peeked = false;
		if (sr_regions_replay_region(&region)) {
			if (region.what == SR_REGION_ADDED && !region.refusal)
				sr_group_region(t, region.addr, region.length);
			continue;
		}
		claim_report();
		control->report.expected_address = region.addr;
		diverge(t, SR_REPLAY_NO_EXPOSED, SR_REC_REGION, found);
	}
	missed = next_event(t);
	if (missed)
		miss_load(t, missed, found, (uintptr_t)site, 0);
}

/* The record of the call that is under way; SR_REC_REPEAT stands for the last one again. */
static bool next_call(struct sr_thread *t, struct record *r)
{
	struct sr_replay_stream *s = t->stream;

	if (!s->repeats_left) {
		if (!peek(t))
			return false;
		*r = s->next;
		s->peeked = false;
		if (r->kind == SR_REC_REPEAT && r->size == sizeof(struct sr_repeat_payload))
			s->repeats_left = ((const struct sr_repeat_payload *)r->payload)->count;
	}
	if (s->repeats_left) {
		s->repeats_left--;
		*r = (struct record){s->last_kind, s->last.p, s->last.len};
	} else if (r->size <= SR_REPEAT_MAX) {
		s->last_kind = r->kind;
		s->last.len = 0;
		sr_put_raw(&s->last, r->payload, r->size);
	}
	return true;
}

/* ---------------------------------------------------------------- a call */

static int32_t exit_status(const struct record *r)
{
	int32_t status = 0;

	if (r->size >= sizeof(status))
		memcpy(&status, r->payload, sizeof(status));
	return status;
}

/*
 * The recording has nothing more for this thread.  The others may still have a way
 * to go, at whose end one of them ends the process.  Of a process that was
 * killed, they may also be where no call is ever made: that is the end too.
 */
static void wait_for_others(uint32_t outcome)
{
	const struct timespec second = {.tv_sec = 1};
	uint64_t before;

	if (sr_tickets_park())
		return;
	do {
		before = sr_replay_calls(control);
		sr_sys_nanosleep(&second);
	} while (outcome == SR_REPLAY_THREAD_CUT || sr_replay_calls(control) != before);
}

static void __attribute__((noreturn))
stop_here(struct sr_thread *t, uint32_t outcome, uint16_t found, void *site)
{
	if (t->stream)
		pass_ticket(t);
	wait_for_others(outcome);
	end_not_transferred(sr_group_not_transferred_at_all());
	claim_report();
	control->report.found_site = (uintptr_t)site;
	control->report.thread = t->number;
	control->report.sn = t->sn;
	control->report.found = found;
	end((enum sr_replay_outcome)outcome, SR_REPLAY_EXIT_CUT);
}

/* A stream ends where the program was killed, where the trace is cut, or with the exit status. */
static void __attribute__((noreturn))
end_of_stream(struct sr_thread *t, const struct record *r, uint16_t found, void *site)
{
	uint32_t outcome = SR_REPLAY_CUT;

	if (r && r->kind == SR_REC_EXIT) {
		claim_report();
		control->report.found_site = (uintptr_t)site;
		control->report.expected_status = exit_status(r);
		diverge(t, SR_REPLAY_LATE_CALL, 0, found);
	}
	if (r && r->kind == SR_REC_REPLAY_END && r->size == sizeof(outcome))
		memcpy(&outcome, r->payload, sizeof(outcome));
	stop_here(t, outcome, found, site);
}

/* With its arguments, which are in t->buf. */
static void __attribute__((noreturn))
find_instead(struct sr_thread *t, uint16_t expected, uint16_t found, void *site)
{
	claim_report();
	control->report.found_site = (uintptr_t)site;
	show(control->report.found_in, &control->report.found_size, t->buf.p, t->buf.len);
	diverge(t, SR_REPLAY_DIVERGED, expected, found);
}

/* Another call, or other arguments: both go into the report. */
static void __attribute__((noreturn))
differ(struct sr_thread *t, const struct record *r, const struct sr_call_head *head, uint16_t found,
       void *site)
{
	uint32_t size = head->in_size;

	claim_report();
	if (size > r->size - sizeof(*head))
		size = (uint32_t)(r->size - sizeof(*head));
	control->report.expected_site = head->site;
	show(control->report.expected_in, &control->report.expected_size,
	     r->payload + sizeof(*head), size);
	find_instead(t, r->kind, found, site);
}

/* Into t->buf, as the recorder encodes them. */
static void encode_arguments(struct sr_thread *t, enum sr_call_number n, uint64_t *a)
{
	const struct sr_call_codec *codec = &sr_call_codecs[n];

	t->buf.len = 0;
	if (codec->put_in)
		codec->put_in(&t->buf, a);
}

static bool same_arguments(const struct sr_thread *t, const struct record *r,
			   const struct sr_call_head *head)
{
	const uint8_t *in = r->payload + sizeof(*head);
	const struct sr_buf *b = &t->buf;

	return b->len == head->in_size && !memcmp(b->p ? b->p : in, in, b->len);
}

static void deliver(struct sr_thread *t, const struct sr_call_desc *d, const struct record *r,
		    const struct sr_call_head *head, uint64_t *a)
{
	const struct sr_call_codec *codec = &sr_call_codecs[sr_call_number(d)];
	struct sr_cursor c = {
	    .p = r->payload + sizeof(*head) + head->in_size,
	    .end = r->payload + r->size - head->orders * sizeof(uint64_t),
	};

	if (codec->deliver)
		codec->deliver(&c, a, head->result);
	if (c.bad || c.p != c.end)
		diverge(t, SR_REPLAY_BAD_RECORD, r->kind, r->kind);
	if (d->flags & SR_CALL_NEWFD && (int)head->result >= 0)
		sr_fd_hold((int)head->result);
	if (d->flags & SR_CALL_EFFECT && (int64_t)head->result >= 0)
		sr_real(d, a);
	if (d->replayed)
		d->replayed(d, a, head->result);
}

/*
 * A debugger that wants to see this call stops the thread here, before anything of
 * it is done.  By a signal that only a debugger, which asked for it, takes.
 */
static void stop_if_asked(const struct sr_thread *t)
{
	_Atomic uint64_t *stop_at = &control->thread[t->number].stop_at;
	uint64_t sn = atomic_load_explicit(stop_at, memory_order_relaxed);

	if (!sn || t->sn < sn)
		return;
	atomic_store(stop_at, 0);
	sr_syscall(SYS_tgkill, sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0), sr_sys_gettid(), SIGTRAP,
		   0, 0, 0);
}

/* ---------------------------------------------------------------- signals */

static bool comes_signal(struct sr_thread *t, struct sr_signal_payload *p)
{
	struct sr_replay_stream *s = t->stream;

	if (t->silent || t->ended || s->repeats_left || !peek(t) || s->next.kind != SR_REC_SIGNAL)
		return false;
	if (s->next.size < sizeof(*p))
		diverge(t, SR_REPLAY_BAD_RECORD, SR_REC_SIGNAL, 0);
	memcpy(p, s->next.payload, sizeof(*p));
	return true;
}

/* The handler runs, and makes its calls, before this returns; or it jumps away. */
static void run_handler(struct sr_thread *t, const struct sr_signal_payload *p)
{
	siginfo_t info;

	_Static_assert(sizeof(info) == sizeof(p->info), "siginfo_t");
	t->stream->peeked = false;
	if (!sr_signals_has_handler((int)p->signo))
		diverge(t, SR_REPLAY_DIVERGED, SR_REC_SIGNAL, 0);
	if (p->entry) {
		await_ticket(t, p->entry);
		let_go(p->entry);
	}
	if (p->order) {
		await_ticket(t, p->order);
		go_on(t, p->order);
	}
	memcpy(&info, p->info, sizeof(info));
	t->stream->awaited = p->signo;
	t->stream->awaited_mask = p->mask;
	sr_signals_replay((int)p->signo, &info);
}

/* Is this the one that the trace has here? */
static bool replay_signal(struct sr_thread *t, struct sr_signal_payload *p)
{
	if (!t->stream || t->stream->awaited != p->signo)
		return false;
	t->stream->awaited = 0;
	p->mask = t->stream->awaited_mask;
	return true;
}

/* In front of a call, those that came since the last one. */
static void run_handlers_between(struct sr_thread *t)
{
	struct sr_signal_payload p;

	take_run_tokens(t);
	while (comes_signal(t, &p) && p.place != SR_SIGNAL_IN_CALL) {
		run_handler(t, &p);
		take_run_tokens(t);
	}
}

/* In a call; true if the event of its entry is over. */
static bool run_handlers_in_call(struct sr_thread *t)
{
	struct sr_signal_payload p;
	bool entered = false;

	/* What they call comes before this call ends, and is counted first. */
	while (comes_signal(t, &p) && p.place == SR_SIGNAL_IN_CALL) {
		entered |= p.entry != 0;
		t->sn--;
		run_handler(t, &p);
		take_run_tokens(t);
		t->sn++;
	}
	return entered;
}

/*
 * Those that came at the end of the call.  One that came later, while the program
 * computed, may be what it waits for there.
 */
static void run_handlers_after(struct sr_thread *t)
{
	struct sr_signal_payload p;
	bool comes;

	/* Another one may come after a handler's last call, when the handler has returned. */
	while ((comes = comes_signal(t, &p)) && p.place == SR_SIGNAL_AFTER &&
	       p.level == t->signals.handlers)
		run_handler(t, &p);
	sr_signals_await_stall(t, comes && p.place == SR_SIGNAL_BETWEEN &&
				      p.level == t->signals.handlers);
}

/* In the midst of the program's code. */
static void stalled(struct sr_thread *t)
{
	struct sr_signal_payload p;

	if (comes_signal(t, &p) && p.place == SR_SIGNAL_BETWEEN && p.level == t->signals.handlers)
		run_handler(t, &p);
}

/* In front of an operation on the heap, those that came since the last one. */
static void run_handlers_at_heap(struct sr_thread *t)
{
	struct sr_signal_payload p;

	while (comes_signal(t, &p) && p.place == SR_SIGNAL_BETWEEN &&
	       p.level == t->signals.handlers && p.heap_position == t->heap_ops)
		run_handler(t, &p);
}

/* ---------------------------------------------------------------- a call */

/* A call of a destructor that comes after the thread's last event: it was not recorded. */
static uint64_t pass(struct sr_thread *t, const struct sr_call_desc *d, uint64_t *a,
		     enum sr_heap before)
{
	uint64_t result = sr_real(d, a);

	sr_leave(t, before);
	return result;
}

static uint64_t replay_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	const struct sr_call_desc *d = &sr_calls[n];
	enum sr_heap before = sr_enter(t);
	uint16_t found = (uint16_t)(SR_REC_CALL + n);
	struct sr_call_head head;
	struct record r;
	uint64_t order[3], resumed = 0;
	struct sr_pinned pinned;
	bool regions, entered;
	uint32_t events;

	sr_pinned_none(&pinned);
	if (!t->started)
		start_thread(t);
	if (t->ended)
		return pass(t, d, a, before);
	run_handlers_between(t);
	t->sn++;
	if (!t->silent)
		stop_if_asked(t);
	/* Loads of memory that peers write: their records are in front of the call's. */
	encode_arguments(t, n, a);
	regions = sr_regions_on;
	if (regions && t->stream)
		t->stream->vain = 0;
	if (regions)
		sr_regions_call_begins(d, a, &pinned);
	if (!t->silent)
		pass_exposed_records(t, found, site);
	entered = run_handlers_in_call(t);
	if (!t->silent)
		pass_exposed_records(t, found, site);
	if (t->silent || !next_call(t, &r))
		end_of_stream(t, NULL, found, site);
	/*
	 * Of several threads: another one has allocated or freed what this one did in the
	 * recording, as happens where plain atomics decide who is the last to let go.
	 */
	if (r.kind == SR_REC_HEAP)
		find_instead(t, r.kind, found, site);
	if (r.kind < SR_REC_CALL)
		end_of_stream(t, &r, found, site);
	if (r.size < sizeof(head))
		diverge(t, SR_REPLAY_BAD_RECORD, r.kind, found);
	memcpy(&head, r.payload, sizeof(head));
	if (r.kind != found)
		differ(t, &r, &head, found, site);
	if (head.in_size + head.orders * sizeof(uint64_t) > r.size - sizeof(head) ||
	    head.orders > 2)
		diverge(t, SR_REPLAY_BAD_RECORD, r.kind, found);
	if (d->flags & SR_CALL_OPAQUE)
		diverge(t, SR_REPLAY_UNSUPPORTED, r.kind, found);
	if (!same_arguments(t, &r, &head))
		differ(t, &r, &head, found, site);
	sr_group_enter(t, n);
	memcpy(order, r.payload + r.size - head.orders * sizeof(uint64_t),
	       head.orders * sizeof(uint64_t));
	events = head.orders;
	/* By what it does others may have gone on, before the program did after it. */
	if (events == 2 && d->order == SR_ORDER_ENTRY && head.error != SR_ERROR_CANCELLED) {
		events = 1;
		resumed = order[1];
	}
	if (events && !entered)
		await_ticket(t, order[0]);
	if (events == 2) {
		if (!entered)
			let_go(order[0]);
		hold(t, found, site);
		await_ticket(t, order[1]);
	}
	/* What others wait for begins before this waits for them. */
	if (!sr_group_posts(n))
		hold(t, found, site);
	/* In its turn: what is delivered, and which descriptors are opened and closed, has an
	 * order. */
	if (head.error != SR_ERROR_CANCELLED)
		deliver(t, d, &r, &head, a);
	sr_group_replayed(t,
			  &(struct sr_group_call){
			      .sn = t->sn,
			      .expected_site = head.site,
			      .found_site = (uintptr_t)site,
			      .thread = t->number,
			      .kind = found,
			  },
			  n, a, head.result);
	end_not_transferred(sr_group_not_transferred());
	hold(t, found, site);
	if (events > entered)
		go_on(t, order[events - 1]);
	if (resumed) {
		await_ticket(t, resumed);
		go_on(t, resumed);
	}
	if (regions || sr_regions_on)
		sr_regions_call_ends(&pinned);
	/* No other thread writes it: no locked add, as all threads on one counter would need. */
	atomic_store_explicit(&control->thread[t->number].calls, t->sn, memory_order_relaxed);

	if (head.error != SR_ERROR_CANCELLED)
		run_handlers_after(t);
	sr_leave(t, before);
	if (head.error == SR_ERROR_CANCELLED)
		pthread_exit(PTHREAD_CANCELED); /* as a cancelled thread goes */
	errno = head.error;
	return head.result;
}

/* ---------------------------------------------------------------- threads */

static bool comes_next(struct sr_thread *t, enum sr_call_number n)
{
	enum sr_heap before = sr_enter(t);
	uint16_t kind = 0;

	if (!t->started)
		start_thread(t);
	run_handlers_between(t);
	if (!t->silent && t->stream->repeats_left)
		kind = t->stream->last_kind;
	else if (!t->silent && peek(t))
		kind = t->stream->next.kind;
	sr_leave(t, before);
	return kind == SR_REC_CALL + n;
}

static void thread_begins(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	if (control->serial && !t->started)
		start_thread(t);
	if (control->serial && !t->silent)
		run_handlers_between(t);
	sr_leave(t, before);
}

static void thread_ends(struct sr_thread *t)
{
	if (t->number < SR_REPLAY_THREADS)
		atomic_store(&control->thread[t->number].over, true);
	pass_ticket(t);
	sr_ring_detach(&t->ring);
	sr_free(t->stream->notes.p);
	sr_free(t->stream);
	t->stream = NULL;
	t->started = false;
	if (sr_tickets_remove_thread())
		end(SR_REPLAY_CUT, SR_REPLAY_EXIT_CUT);
}

/* Does the thread take the heap over with this operation?  It does not come back if there is none.
 */
static bool takes_heap_over(struct sr_thread *t, struct sr_heap_payload *heap)
{
	struct sr_replay_stream *s = t->stream;

	if (s->repeats_left)
		return false;
	run_handlers_at_heap(t);
	if (!peek(t) || s->next.kind == SR_REC_REPLAY_END) {
		/* It came to its last call, which it did not come back from. */
		if (s->has_ticket)
			return false;
		if (!sr_heap_run_on_demand(t->number))
			end_of_stream(t, s->peeked ? &s->next : NULL, SR_REC_HEAP, NULL);
		return false;
	}
	if (s->next.kind != SR_REC_HEAP || s->next.size < sizeof(*heap))
		return false;
	memcpy(heap, s->next.payload, sizeof(*heap));
	return heap->position == t->heap_ops;
}

static bool heap_begin(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);
	struct sr_heap_payload heap;
	int saved = errno;

	if (!t->started)
		start_thread(t);
	if (!t->ended && !t->silent && takes_heap_over(t, &heap)) {
		sr_heap_run_take(t->number, heap.run, heap.previous);
		t->stream->peeked = false;
		t->heap_ops = 0;
	}
	sr_leave(t, before);
	errno = saved;
	return !t->ended && !t->silent;
}

static void heap_end(struct sr_thread *t)
{
	t->heap_ops++;
	sr_heap_run_done();
}

/* The rings, of threads that have not begun as well; what it shares with its group. */
static int own_fd_from(int from)
{
	int first = sr_lower_fd(-1, control->group_fd, from);

	first = sr_lower_fd(first, control->found_fd, from);

	for (uint32_t i = 0; i < control->threads; i++)
		if (!atomic_load(&control->thread[i].over))
			first = sr_lower_fd(first, control->stream_fd[i], from);
	return first;
}

static void exits(int status);

static void __attribute__((noreturn)) fail(void)
{
	for (;;)
		sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
}

static const struct sr_engine replay_engine = {
    .call = replay_call,
    .replays = true,
    .active = true,
    .note = sr_engine_no_note,
    .clock = sr_engine_no_clock,
    .own_fd_from = own_fd_from,
    .heap_begin = heap_begin,
    .heap_end = heap_end,
    .signal = replay_signal,
    .thread_starts = sr_tickets_add_thread,
    .thread_begins = thread_begins,
    .thread_ends = thread_ends,
    .releases = sr_engine_ignore,
    .resumes = sr_engine_ignore,
    .exits = exits,
    .comes_next = comes_next,
    .stalled = stalled,
    .fail = fail,
};

/* The process has ended as recorded; a thread that still runs has nothing left to do. */
static uint64_t halt(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	sleep_for_ever();
}

static bool halt_once(struct sr_thread *t, enum sr_call_number n)
{
	sleep_for_ever();
}

static const struct sr_engine halted_engine = {
    .call = halt,
    .replays = true,
    .note = sr_engine_no_note,
    .clock = sr_engine_no_clock,
    .own_fd_from = sr_engine_no_fd,
    .heap_begin = sr_engine_no_heap,
    .heap_end = sr_engine_ignore,
    .signal = sr_engine_any_signal,
    .thread_starts = sr_engine_ignore_start,
    .thread_begins = sr_engine_ignore,
    .thread_ends = sr_engine_ignore,
    .releases = sr_engine_ignore,
    .resumes = sr_engine_ignore,
    .exits = exits,
    .comes_next = halt_once,
    .stalled = sr_engine_ignore,
    .fail = fail,
};

/* A child of the program's was not recorded, and is not replayed: its calls are real. */
static void leave_child_alone(void)
{
	sr_engine = NULL;
	sr_threaded = sr_serial = false;
	sr_signals_forget_in_child();
	sr_tsc_leave_alone();
	sr_cpuid_leave_alone();
}

/* What other threads did before comes before. */
static void wait_for_exit(struct sr_thread *t, const struct record *r)
{
	struct sr_exit_payload payload;

	if (r->kind != SR_REC_EXIT || r->size < sizeof(payload))
		return;
	memcpy(&payload, r->payload, sizeof(payload));
	if (payload.order)
		await_ticket(t, payload.order);
}

static void exits(int status)
{
	static struct sr_thread *ends_it;
	struct sr_thread *t = &sr_self;
	struct record r;

	/* What is in stdio's buffers is the other one's to write. */
	if (sr_engine == &halted_engine && t != ends_it)
		sleep_for_ever();
	if (sr_engine != &replay_engine)
		return;
	sr_enter(t);
	if (!t->started)
		start_thread(t);
	run_handlers_between(t);
	t->sn++;
	/* Nothing of it was recorded: another thread ended the process before. */
	if (t->silent)
		stop_here(t, SR_REPLAY_THREAD_CUT, 0, NULL);
	pass_exposed_records(t, 0, NULL);
	if (!next_call(t, &r))
		end_of_stream(t, NULL, 0, NULL);
	/* Another thread ended the process before, or it was killed. */
	if (r.kind < SR_REC_CALL && r.kind != SR_REC_EXIT && r.kind != SR_REC_HEAP)
		end_of_stream(t, &r, 0, NULL);
	wait_for_exit(t, &r);
	sr_stdio_settle();
	ends_it = t;
	sr_engine = &halted_engine;
	claim_report();
	control->report.found_status = status;
	if (r.kind != SR_REC_EXIT) {
		if (r.kind >= SR_REC_CALL && r.size >= sizeof(struct sr_call_head))
			control->report.expected_site =
			    ((const struct sr_call_head *)r.payload)->site;
		diverge(t, SR_REPLAY_EARLY_EXIT, r.kind, 0);
	}
	control->report.expected_status = exit_status(&r);
	if (control->report.expected_status != status)
		diverge(t, SR_REPLAY_EARLY_EXIT, 0, 0);
	end_not_transferred(sr_group_not_transferred_at_all());
	atomic_store_explicit(&control->outcome, SR_REPLAY_EXACT, memory_order_release);
	sr_group_linger();
}

/* ------------------------------------------------------------------ start */

/*
 * The command leaves the rings at low numbers or high ones as it comes; the
 * program must find the numbers free that it had free in the recording.
 */
static int move_away(int fd)
{
	long high = sr_sys_fcntl(fd, F_DUPFD_CLOEXEC, SR_REPLAY_FD + 1);

	if (high < 0)
		return fd;
	sr_sys_close(fd);
	return (int)high;
}

/* What the recording caught beside calls is caught here. */
static void start_traps(void)
{
	int err = control->trap ? sr_trap_start() : 0;

	if (!err && control->tsc)
		err = sr_tsc_start();
	if (err) {
		sr_say(
		    "the recording caught system calls and the time-stamp counter, which cannot be "
		    "done here (%s)",
		    strerrorname_np(-err));
		for (;;)
			sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
	}
	atomic_store(&control->cpuid_emulated,
		     sr_cpuid_begin(&control->processor, atomic_load(&control->cpuid_traced)));
	sr_trap_begin(control->pid);
	sr_tsc_begin();
}

void sr_replay_start(void)
{
	void *page = sr_sys_mmap(sr_heap_place_mapping(sizeof(*control)), sizeof(*control),
				 PROT_READ | PROT_WRITE, MAP_SHARED, SR_REPLAY_FD, 0);

	if (sr_sys_is_error(page) || sr_children_start(leave_child_alone))
		for (;;)
			sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
	control = page;
	atomic_store(&control->process, (int32_t)sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0));
	sr_sys_close(SR_REPLAY_FD);
	for (uint32_t i = 0; i < control->threads; i++)
		control->stream_fd[i] = move_away(control->stream_fd[i]);
	if (control->group_fd >= 0)
		control->group_fd = move_away(control->group_fd);
	if (control->found_fd >= 0)
		control->found_fd = move_away(control->found_fd);
	sr_group_start(control);
	sr_tickets_start(control);
	sr_serial = control->serial;
	sr_signals_start(true);
	sr_regions_start_replay(&(struct sr_exposed_hooks){
	    .recorded = recorded_event,
	    .stored = sr_group_stored,
	    .went_pass_through = sr_group_went_pass_through,
	    .was_pass_through = sr_group_was_pass_through,
	});
	sr_stdio_pin(control->stdout_line_buffered);
	sr_main_stack_pin(control->main_stack);
	start_traps();
	sr_engine = &replay_engine;
}
