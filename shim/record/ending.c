/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/ending.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/confirm/confirm.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/record/call.h"
#include "shim/record/emit.h"
#include "shim/record/serial.h"
#include "shim/record/settling.h"
#include "shim/record/signal.h"
#include "shim/record/streams.h"
#include "shim/signals/signals.h"
#include "shim/verbs/regions.h"

/*
 * How long another thread that ends the process meanwhile waits: until the records are on
 * disk or, if they already are, until the exit handlers have run.
 */
#define WRITES_IN_MS 2000
#define ENDS_IN_MS   500

static pid_t recorded_pid;

void sr_record_expect_end(void)
{
	recorded_pid = sr_sys_getpid();
}

bool sr_record_is_process(void)
{
	return sr_sys_getpid() == recorded_pid;
}

/*
 * After the last record of a process that goes on: calls are not recorded, but the completions that
 * they poll must still not show the shim's wr_ids.
 */
static uint64_t pass_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	enum sr_heap before = sr_enter(t);
	uint64_t result;

	t->heap = SR_HEAP_LIBRARY;
	result = sr_invoke(&sr_calls[n], a);
	sr_leave(t, before);
	return result;
}

/* The thread whose exit handlers have run, and the event of that. */
static struct sr_thread *last_thread;
static uint64_t last_event;

/*
 * The end takes longer than without sreplay, since the records have to be written.  What the other
 * threads did meanwhile would be in no trace, so they stop at their next call.  The last thread
 * needs none of them: its exit handlers have run.
 */
static uint64_t stop_others(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	static const struct timespec a_second = {.tv_sec = 1};

	while (t != last_thread && sr_record_is_process())
		sr_sys_nanosleep(&a_second);
	return pass_call(t, n, a, site);
}

static const struct sr_engine passing_engine = {
    .call = pass_call,
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
    .exit_called = sr_record_exit_called,
    .exit_begins = sr_record_exits,
    .exits = sr_record_exits,
};

/* Only the thread that writes what is left in stdio's buffers is still recorded. */
static uint64_t last_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return t == last_thread ? sr_record_call_alone(t, n, a, site) : stop_others(t, n, a, site);
}

static bool last_signal(struct sr_thread *t, struct sr_signal_payload *p)
{
	return t != last_thread || sr_record_signal_alone(t, p);
}

static const struct sr_engine last_engine = {
    .call = last_call,
    .active = true,
    .note = sr_engine_no_note,
    .clock = sr_engine_no_clock,
    .own_fd_from = sr_record_own_fd_from,
    .heap_begin = sr_engine_no_heap,
    .heap_end = sr_engine_ignore,
    .signal = last_signal,
    .thread_starts = sr_engine_ignore_start,
    .thread_begins = sr_engine_ignore,
    .thread_ends = sr_record_end_thread,
    .releases = sr_engine_ignore,
    .resumes = sr_engine_ignore,
    .exit_called = sr_record_exit_called,
    .exit_begins = sr_record_exits,
    .exits = sr_record_exits,
};

static struct sr_engine ended_engine;

const struct sr_engine *sr_record_passing_engine(void)
{
	return &passing_engine;
}

static _Atomic bool said; /* that the recording does not come to the end */

static void say_what_for(const char *what)
{
	if (!sr_recorder.quiet)
		sr_say("rank %d waits for %s; after %d s it goes on unrecorded", sr_recorder.rank, what,
		       SR_CLIENT_STALL_TIMEOUT_MS / 1000);
}

static void say_given_up(int error)
{
	if (!atomic_exchange(&said, true))
		sr_say("rank %d is not recorded any further: sreplay-logd %s for %d s",
		       sr_recorder.rank, error == ENOTCONN ? "was gone" : "wrote nothing",
		       SR_CLIENT_STALL_TIMEOUT_MS / 1000);
}

const struct sr_client_hooks sr_record_client_hooks = {
    .waits = say_what_for,
    .gives_up = say_given_up,
};

void sr_record_ring_stopped(int error)
{
	const char *why = strerrordesc_np(error);

	if (!atomic_exchange(&said, true))
		sr_say("this process is not recorded any further: sreplay-logd cannot write its "
		       "trace (%s)",
		       why ? why : "unknown error");
}

/* Which thread ends the process, and whether the records are on disk. */
static struct {
	_Atomic pid_t thread;
	_Atomic bool written;
	_Atomic int64_t awaited_until;
} ending;

/* False if another thread has begun to end the process. */
static bool begin_to_end(void)
{
	pid_t self = (pid_t)sr_sys_gettid(), nobody = 0;

	return atomic_compare_exchange_strong(&ending.thread, &nobody, self) || nobody == self;
}

/*
 * The daemon needs some milliseconds for the last records; without sreplay the process
 * would end within microseconds. Meanwhile another thread may end the process too, perhaps
 * because something that it needs is gone. Without sreplay it would not have got so far. It
 * must not cut off the records or what is still in stdio's buffers, so it waits here. If
 * the first thread hangs, this one ends the process; on its way out it comes here twice.
 */
static void await_the_end(void)
{
	static const struct timespec a_moment = {.tv_nsec = 1000000};
	int64_t none = 0, now = sr_sys_now_ms();
	int64_t until = now + (atomic_load(&ending.written) ? ENDS_IN_MS : WRITES_IN_MS);

	if (!atomic_compare_exchange_strong(&ending.awaited_until, &none, until))
		until = none;
	for (; now < until; now = sr_sys_now_ms())
		sr_sys_nanosleep(&a_moment);
}

void sr_record_exit_called(struct sr_thread *t)
{
	pid_t thread = atomic_load(&ending.thread);

	if (thread && thread != (pid_t)sr_sys_gettid())
		await_the_end();
}

/* Returns false if the process does not end here, or another thread ends it. */
static bool may_end(struct sr_thread *t)
{
	if (!sr_record_is_process())
		return false;
	/* A handler may end the process, or jump out of here. */
	if (sr_engine_is_active() && t->signals.waiting)
		sr_signals_take(t, SR_SIGNAL_BEFORE);
	if (!begin_to_end()) {
		await_the_end();
		return false;
	}
	return sr_engine_is_active();
}

static void put_end(struct sr_thread *t, enum sr_record_kind kind, int status)
{
	struct sr_exit_payload payload = {.status = status, .order = last_event};

	if (t->silent)
		return;
	sr_flush_repeats(t);
	sr_emit_check(t);
	sr_emit(t, (uint16_t)kind, &payload, sizeof(payload));
	/* A repeat refers to a call. */
	t->last.len = 0;
}

/* From here on, the other threads are not recorded. */
static void end_others(struct sr_thread *t)
{
	if (!t->started)
		sr_record_start_thread(t);
	last_event = sr_record_settle(t, true);
	last_thread = t;
	sr_regions_record_counts();
	if (sr_serial)
		sr_token_stop(&t->run_token);
}

void sr_record_exit_begins(int status)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before;

	if (!may_end(t))
		return;
	before = sr_enter(t);
	sr_confirm_end();
	end_others(t);
	put_end(t, SR_REC_EXIT_BEGINS, status);
	sr_engine = &last_engine;
	sr_leave(t, before);
}

void sr_record_exits(int status)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before;

	if (!may_end(t))
		return;
	before = sr_enter(t);
	sr_confirm_end();
	if (!last_thread)
		end_others(t);
	put_end(t, SR_REC_EXIT, status);
	ended_engine = passing_engine;
	ended_engine.call = stop_others;
	sr_engine = &ended_engine;
	sr_record_close_streams();
	if (sr_client_finish(&sr_recorder.client, -1) && !atomic_load(&said))
		sr_say(
		    "the end of the recording could not be written: no answer from sreplay-logd");
	sr_record_report_stopped();
	atomic_store(&ending.written, true);
	sr_leave(t, before);
}
