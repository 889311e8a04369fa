/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/stuck.h"

#include <stdio.h>

#include "replay/analysis/log/channels.h"
#include "replay/print/say.h"
#include "shim/core/call.h"

typedef unsigned long long ull;

#define CALLS_SHOWN   10
#define THREADS_SHOWN 16

static void say_entry(const struct sr_print *with, const struct sr_entry *e)
{
	json_t *v = sr_print_decode(with, e);

	if (!v)
		return;
	fputs("sreplay:   ", stderr);
	sr_print_line(stderr, with, e, v);
	json_decref(v);
}

/* Prints the calls with first <= SN < end; false: there are none. */
static bool say_calls(struct sr_trace *t, int32_t rank, uint32_t thread, uint64_t first,
		      uint64_t end, const struct sr_print *with)
{
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;
	bool some = false;

	if (!with->schema || sr_stream_open(&s, t, rank, thread, &err))
		return false;
	if (!sr_stream_seek(s, first)) {
		/* Other records, of the heap and of exposed regions, lie between the calls. */
		while (sr_stream_next(s, &e) > 0 && (!e.count || e.sn < end)) {
			if (!e.count)
				continue;
			say_entry(with, &e);
			some = true;
		}
	}
	sr_stream_close(s);
	return some;
}

void sr_say_calls_before(struct sr_trace *t, int32_t rank, uint32_t thread, uint64_t sn,
			 const struct sr_print *with)
{
	say_calls(t, rank, thread, sn > CALLS_SHOWN ? sn - CALLS_SHOWN : 1, sn, with);
}

/* The last event of this call; 0: it has none, or there is no such call. */
static uint64_t last_event_of(const struct sr_stuck *s, uint32_t thread, uint64_t sn)
{
	struct sr_stream *stream;
	struct sr_error err;
	struct sr_entry e;
	uint64_t event = 0;

	if (!sn || sr_stream_open(&stream, s->trace, s->rank, thread, &err))
		return 0;
	if (!sr_stream_seek(stream, sn) && sr_stream_next(stream, &e) > 0 && e.kind >= SR_REC_CALL && e.size >= sizeof(struct sr_call_head))
		event = sr_entry_last_event(&e);
	sr_stream_close(stream);
	return event;
}

/* The call that the thread is in, or comes to.  One that others may go on behind is counted before it returns. */
static uint64_t current_call(const struct sr_stuck *s, uint32_t thread, uint64_t calls, uint64_t waits_for)
{
	return waits_for && last_event_of(s, thread, calls) == waits_for ? calls : calls + 1;
}

static void say_thread(const struct sr_stuck *s, uint32_t number)
{
	const struct sr_replay_thread *t = &s->control->thread[number];
	int32_t tid = atomic_load(&t->tid);
	uint64_t waits_for = atomic_load(&t->waits_for), sn;

	if (!s->control->ring_of[number] || atomic_load(&t->over))
		return;
	if (!tid) {
		sr_note("rank %s thread %u has made no call yet; the recording has:",
			sr_trace_rank_name(s->trace, s->rank), number);
		say_calls(s->trace, s->rank, number, 1, 2, s->with);
		return;
	}
	sn = current_call(s, number, atomic_load(&t->calls), waits_for);
	sr_note("rank %s thread %u SN %llu: this call %s; the recording has:", sr_trace_rank_name(s->trace, s->rank), number,
		(ull)sn, waits_for ? "is under way" : "did not come");
	if (!say_calls(s->trace, s->rank, number, sn, sn + 1, s->with))
		fputs("sreplay:   no more calls of this thread\n", stderr);
	if (waits_for)
		sr_note("thread %u waits for its turn, event %llu; the next event is %llu", number,
			(ull)waits_for, (ull)atomic_load(&s->control->ticket));
	sr_note("the last calls of thread %u:", number);
	sr_say_calls_before(s->trace, s->rank, number, sn, s->with);
	sr_note("thread %u is at:", number);
	if (!sr_symbols_print_stack(stderr, "sreplay:   ", s->process, tid))
		fputs("sreplay:   its stack cannot be read\n", stderr);
}

static void say_why(const struct sr_stuck *s)
{
	uint32_t waiting = 0, running = 0, last = 0;
	const char *order = s->control->serial ? "which is ordered between calls only"
					       : "which sreplay does not order";

	for (uint32_t i = 0; i < s->control->threads; i++) {
		const struct sr_replay_thread *t = &s->control->thread[i];

		if (atomic_load(&t->waits_for)) {
			waiting++;
		} else if (atomic_load(&t->tid) && !atomic_load(&t->over)) {
			running++;
			last = i;
		}
	}
	if (waiting && running == 1)
		sr_note("thread %u makes no call, and all others wait for it: if it waits for "
			"memory that another thread stores to, the program synchronises by plain "
			"atomics, %s",
			last, order);
	else if (waiting && running)
		sr_note("%u threads wait for their turn while %u make no calls: if these wait for "
			"memory that others store to, the program synchronises by plain atomics, "
			"%s",
			waiting, running, order);
}

void sr_stuck_say(const struct sr_stuck *s)
{
	uint32_t threads = s->control->threads;

	sr_note("rank %s made no recorded call for %ld s: stopped (--timeout changes that)",
		sr_trace_rank_name(s->trace, s->rank), s->seconds);
	say_why(s);
	for (uint32_t i = 0; i < threads && i < THREADS_SHOWN; i++)
		say_thread(s, i);
	if (threads > THREADS_SHOWN)
		sr_note("... and %u more threads", threads - THREADS_SHOWN);
}
