/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.c: starts the replay engine; starts and ends a replayed process and its threads. */
#include "shim/replay/engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "logd/base/highfd.h"
#include "logd/base/say.h"
#include "shim/calls/trap/trap.h"
#include "shim/core/call_stack.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/files/fds.h"
#include "shim/files/inherited.h"
#include "shim/files/own_fds.h"
#include "shim/files/uncompared.h"
#include "shim/kernel/cpuid_trap.h"
#include "shim/kernel/tsc.h"
#include "shim/memory/heap.h"
#include "shim/memory/huge_pages.h"
#include "shim/process/children.h"
#include "shim/replay/group/group.h"
#include "shim/replay/own.h"
#include "shim/replay/stacks.h"
#include "shim/replay/trial.h"
#include "shim/replay/watch.h"
#include "shim/files/changes.h"
#include "shim/files/private.h"
#include "shim/replay/tickets.h"
#include "shim/signals/signals.h"
#include "shim/threads/main_stack.h"
#include "shim/threads/program_threads.h"
#include "shim/threads/stdio_order.h"
#include "shim/threads/stdio_pin.h"
#include "shim/verbs/regions.h"

struct sr_replay_control *sr_replay_page;

bool sr_replay_wanted(void)
{
	uint64_t magic = 0;

	return sr_syscall(SYS_pread64, sr_fd_floor(), SR_ARG(&magic), sizeof(magic), 0, 0, 0) ==
		   sizeof(magic) &&
	       magic == SR_REPLAY_MAGIC;
}

static bool is_next(struct sr_thread *t, enum sr_call_number n, uint64_t *a)
{
	struct sr_replay_record r;

	return !t->silent && sr_replay_peek_call(t, &r) && r.kind == SR_REC_CALL + n && (!a || sr_replay_has_arguments(t, &r, n, a));
}

static bool comes_next(struct sr_thread *t, enum sr_call_number n, uint64_t *a)
{
	enum sr_heap before = sr_enter(t);
	bool is;

	if (!t->started)
		sr_replay_start_thread(t);
	sr_replay_handlers_between(t);
	sr_replay_pass_number(t);
	is = is_next(t, n, a);
	sr_leave(t, before);
	return is;
}

static bool passes(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);
	bool is;

	if (!t->started)
		sr_replay_start_thread(t);
	is = !t->silent && !t->stream->repeats_left && sr_replay_peek(t) && t->stream->passed;
	if (is)
		t->stream->passed--;
	sr_leave(t, before);
	return is;
}

static bool comes_at_once(struct sr_thread *t, enum sr_call_number n, uint64_t *a)
{
	enum sr_heap before = sr_enter(t);
	bool is = t->started && is_next(t, n, a);

	sr_leave(t, before);
	return is;
}

/*
 * If threads run one at a time, one that never had the run token has executed nothing of the program: it waits until another one
 * ends the process.  Not if its recording was given up, as it may have gone on.
 */
static void begin_without_token(struct sr_thread *t)
{
	/* The first thing that comes may be a place in its code. */
	const bool comes = !t->silent && sr_replay_peek(t);

	if (!sr_replay_page->serial)
		return;
	if (t->silent)
		sr_replay_stop(t, SR_REPLAY_THREAD_CUT, 0, NULL);
	if (comes && t->stream->next.kind == SR_REC_REPLAY_END && sr_replay_outcome_of(&t->stream->next) != SR_REPLAY_CUT)
		sr_replay_end_of_stream(t, &t->stream->next, 0, NULL);
}

static void thread_begins(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		sr_replay_start_thread(t);
	if (t->silent || !sr_replay_take_run_tokens(t))
		begin_without_token(t);
	sr_leave(t, before);
}

static void thread_ends(struct sr_thread *t)
{
	sr_replay_take_check(t);
	if (t->number < SR_REPLAY_THREADS)
		atomic_store(&sr_replay_page->thread[t->number].over, true);
	sr_replay_end_ticket(t);
	sr_ring_detach(&t->ring);
	sr_free(t->stream->notes.p);
	sr_free(t->stream->whole.p);
	sr_free(t->stream->taken.p);
	sr_free(t->stream);
	t->stream = NULL;
	t->started = false;
	if (sr_tickets_remove_thread())
		sr_replay_end(SR_REPLAY_CUT, SR_REPLAY_EXIT_CUT);
}

static void peek_apart(uintptr_t t)
{
	sr_replay_peek((struct sr_thread *)t);
}

/*
 * To look at the record that comes next may go deep: it may have to wait for the command.  The recorder does nothing of that kind in
 * front of an operation on the heap, behind which little of the stack is cleared.
 */
static void look_ahead(struct sr_thread *t)
{
	if (!t->stream->peeked && t->call_stack)
		sr_run_on_stack(t->call_stack, peek_apart, (uintptr_t)t);
}

/*
 * Does the thread take over the heap with this operation?  Does not return if the recording
 * cannot have such an operation.
 */
static bool takes_heap_over(struct sr_thread *t, struct sr_heap_payload *heap)
{
	struct sr_replay_stream *s = t->stream;

	if (s->repeats_left)
		return false;
	look_ahead(t);
	sr_replay_miss_places_at_heap(t);
	sr_replay_handlers_at_heap(t);
	sr_replay_wait_at_heap(t);
	if (!sr_replay_peek(t) || s->next.kind == SR_REC_REPLAY_END) {
		/* The thread is in its last call, which did not return in the recording. */
		if (s->has_ticket)
			return false;
		if (!sr_heap_run_on_demand(t->number))
			sr_replay_end_of_stream(t, s->peeked ? &s->next : NULL, SR_REC_HEAP, NULL);
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
		sr_replay_start_thread(t);
	if (sr_trial_has_begun()) {
		sr_leave(t, before);
		return false;
	}
	if (!t->ended && !t->silent && takes_heap_over(t, &heap)) {
		sr_heap_run_take(t->number, heap.run, heap.previous);
		t->stream->peeked = false;
		t->heap_ops = 0;
		if (sr_replay_page->serial)
			sr_replay_peek(t);
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

/* The shim's own descriptors: the group's, and the rings, also of threads not started yet. */
static int own_fd_from(int from)
{
	int first = sr_lower_fd(-1, sr_replay_page->group_fd, from);

	first = sr_lower_fd(first, sr_replay_page->watch_fd, from);
	first = sr_lower_fd(first, sr_replay_page->stacks_fd, from);
	first = sr_lower_fd(first, sr_replay_page->produced_fd, from);
	first = sr_lower_fd(first, sr_private_fd(), from);
	first = sr_lower_fd(first, sr_changes_fd(), from);
	return sr_lower_fd(first, sr_replay_page->rings_fd, from);
}

static void exit_called(struct sr_thread *t);
static void exit_begins(int status);
static void exits(int status);

static void __attribute__((noreturn)) fail(void)
{
	for (;;)
		sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
}

static const struct sr_engine replay_engine = {
    .call = sr_replay_call,
    .replays = true,
    .active = true,
    .note = sr_engine_no_note,
    .clock = sr_engine_no_clock,
    .own_fd_from = own_fd_from,
    .heap_begin = heap_begin,
    .heap_end = heap_end,
    .signal = sr_replay_signal,
    .handlers_at_heap = sr_replay_handlers_due_at_heap,
    .thread_starts = sr_tickets_add_thread,
    .thread_begins = thread_begins,
    .thread_ends = thread_ends,
    .releases = sr_engine_ignore,
    .resumes = sr_engine_ignore,
    .yields = sr_replay_yields,
    .exit_called = exit_called,
    .exit_begins = exit_begins,
    .exits = exits,
    .executes = sr_replay_executes,
    .forks = sr_replay_forks,
    .continues = sr_replay_continues,
    .leaves_to = sr_replay_leaves_to,
    .becomes_child = sr_replay_becomes_child,
    .passes = passes,
    .comes_next = comes_next,
    .comes_at_once = comes_at_once,
    .expects = sr_group_expects,
    .stalled = sr_replay_stalled,
    .returned_to_place = sr_replay_returned_to_place,
    .handler_comes_first = sr_replay_handler_comes_first,
    .fail = fail,
};

/* The thread that ends the process.  It writes what is left in stdio's buffers. */
static struct sr_thread *last_thread;

static void sleep_if_other(struct sr_thread *t)
{
	if (t != last_thread)
		sr_replay_sleep();
}

/* The process has ended as recorded, so a thread that still makes calls is stopped. */
static uint64_t halt(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	sr_replay_sleep();
}

static bool halt_once(struct sr_thread *t, enum sr_call_number n, uint64_t *a)
{
	sr_replay_sleep();
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
    .exit_called = sleep_if_other,
    .exit_begins = exits,
    .exits = exits,
    .comes_next = halt_once,
    .comes_at_once = halt_once,
    .stalled = sr_engine_ignore,
    .returned_to_place = sr_engine_ignore,
    .fail = fail,
};

static uint64_t last_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return t == last_thread ? sr_replay_call(t, n, a, site) : halt(t, n, a, site);
}

static bool last_comes_next(struct sr_thread *t, enum sr_call_number n, uint64_t *a)
{
	return t == last_thread ? comes_next(t, n, a) : halt_once(t, n, a);
}

static bool last_comes_at_once(struct sr_thread *t, enum sr_call_number n, uint64_t *a)
{
	return t == last_thread ? comes_at_once(t, n, a) : halt_once(t, n, a);
}

/* While it does so, the other threads are not in the recording any more. */
static const struct sr_engine last_engine = {
    .call = last_call,
    .replays = true,
    .active = true,
    .note = sr_engine_no_note,
    .clock = sr_engine_no_clock,
    .own_fd_from = own_fd_from,
    .heap_begin = sr_engine_no_heap,
    .heap_end = sr_engine_ignore,
    .signal = sr_replay_signal,
    .handlers_at_heap = sr_replay_handlers_due_at_heap,
    .thread_starts = sr_engine_ignore_start,
    .thread_begins = sr_engine_ignore,
    .thread_ends = sr_engine_ignore,
    .releases = sr_engine_ignore,
    .resumes = sr_engine_ignore,
    .exit_called = sleep_if_other,
    .exit_begins = exits,
    .exits = exits,
    .comes_next = last_comes_next,
    .comes_at_once = last_comes_at_once,
    .expects = sr_group_expects,
    .stalled = sr_replay_stalled,
    .returned_to_place = sr_replay_returned_to_place,
    .handler_comes_first = sr_replay_handler_comes_first,
    .fail = fail,
};

/* A child of the program was not recorded, so it makes its calls for real. */
static void leave_child_alone(void)
{
	sr_engine = NULL;
	sr_threaded = sr_serial = false;
	sr_signals_forget_in_child();
	sr_tsc_leave_alone();
	sr_cpuid_leave_alone();
}

/* Waits for the ticket of the exit: other threads' earlier events come first. */
static void wait_for_exit(struct sr_thread *t, const struct sr_replay_record *r)
{
	struct sr_exit_payload payload;

	if (!sr_replay_is_end(r->kind) || r->size < sizeof(payload))
		return;
	memcpy(&payload, r->payload, sizeof(payload));
	if (payload.order)
		sr_replay_await_ticket(t, payload.order);
}

/* Takes the record of the end, in front of which nothing else may come. */
static void take_end(struct sr_thread *t, struct sr_replay_record *r)
{
	if (!t->started)
		sr_replay_start_thread(t);
	sr_replay_handlers_between(t);
	t->sn++;
	/* The thread was not recorded: another thread ended the process before. */
	if (t->silent)
		sr_replay_stop(t, SR_REPLAY_THREAD_CUT, 0, NULL);
	sr_replay_pass_exposed(t, 0, NULL);
	sr_replay_take_check(t);
	if (!sr_replay_next_call(t, r))
		sr_replay_end_of_stream(t, NULL, 0, NULL);
	/* In the recording, another thread ended the process before, or it was killed. */
	if (r->kind < SR_REC_CALL && !sr_replay_is_end(r->kind) && r->kind != SR_REC_HEAP &&
	    r->kind != SR_REC_EXEC)
		sr_replay_end_of_stream(t, r, 0, NULL);
}

/* Compares the end with the recorded one. */
static void check_end(struct sr_thread *t, const struct sr_replay_record *r, uint16_t kind,
		      int status)
{
	struct sr_replay_report *report = &sr_replay_page->report;

	if (r->kind == kind && sr_replay_exit_status(r) == status)
		return;
	sr_replay_claim_report();
	report->found_status = status;
	report->expected_status = sr_replay_exit_status(r);
	if (r->kind >= SR_REC_CALL && r->size >= sizeof(struct sr_call_head))
		report->expected_site = ((const struct sr_call_head *)r->payload)->site;
	sr_replay_diverge(t, SR_REPLAY_EARLY_EXIT, r->kind == kind ? 0 : r->kind, 0);
}

/* The other threads stop: they are not in the recording from here on. */
static void halt_others(struct sr_thread *t, const struct sr_replay_record *r)
{
	wait_for_exit(t, r);
	sr_stdio_settle();
	last_thread = t;
}

/*
 * In the recording, another thread ended the process if this one has nothing more there.  In exit
 * it would take locks of libc that the other one needs.
 */
static void exit_called(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	if (!t->started)
		sr_replay_start_thread(t);
	if (t->silent)
		sr_replay_stop(t, SR_REPLAY_THREAD_CUT, 0, NULL);
	if (!t->ended && !t->stream->repeats_left && sr_replay_peek(t) &&
	    t->stream->next.kind == SR_REC_REPLAY_END)
		sr_replay_end_of_stream(t, &t->stream->next, 0, NULL);
	sr_leave(t, before);
}

static void exit_begins(int status)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before = sr_enter(t);
	struct sr_replay_record r;

	take_end(t, &r);
	halt_others(t, &r);
	sr_engine = &last_engine;
	check_end(t, &r, SR_REC_EXIT_BEGINS, status);
	t->sn--;
	sr_leave(t, before);
}

static void exits(int status)
{
	struct sr_thread *t = &sr_self;
	struct sr_replay_record r;

	if (last_thread)
		sleep_if_other(t);
	if (sr_engine == &halted_engine)
		return;
	sr_enter(t);
	take_end(t, &r);
	if (!last_thread)
		halt_others(t, &r);
	sr_engine = &halted_engine;
	check_end(t, &r, SR_REC_EXIT, status);
	sr_replay_claim_report();
	sr_replay_page->report.expected_status = sr_replay_page->report.found_status = status;
	sr_replay_check_transfers(sr_group_not_transferred_at_all());
	atomic_store_explicit(&sr_replay_page->outcome, SR_REPLAY_EXACT, memory_order_release);
	sr_group_linger();
}

/* ------------------------------------------------------------------ start */

/* The command has given them numbers that the program does not reach. */
static int keep(int fd)
{
	sr_sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

static void take_files(void)
{
	int files = sr_replay_page->files_fd, journal = sr_replay_page->journal_fd;

	sr_private_start(files < 0 ? files : keep(files));
	sr_changes_start(journal < 0 ? journal : keep(journal));
}

/* Starts the same traps as the recording had: system calls, time-stamp counter, CPUID. */
static void await_debugger(void)
{
	while (atomic_load(&sr_replay_page->awaits_debugger))
		sr_sys_futex((uint32_t *)&sr_replay_page->awaits_debugger, FUTEX_WAIT, 1, NULL);
}

static void start_traps(void)
{
	int err = sr_replay_page->trap ? sr_trap_start() : 0;

	if (!err && sr_replay_page->tsc)
		err = sr_tsc_start();
	if (err) {
		sr_say(
		    "the recording caught system calls and the time-stamp counter, which cannot be "
		    "done here (%s)",
		    strerrorname_np(-err));
		for (;;)
			sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
	}
	atomic_store(
	    &sr_replay_page->cpuid_emulated,
	    sr_cpuid_begin(&sr_replay_page->processor, atomic_load(&sr_replay_page->cpuid_traced)));
	if (atomic_load(&sr_replay_page->traced))
		sr_syscall(SYS_kill, sr_sys_getpid(), SIGSTOP, 0, 0, 0, 0);
	await_debugger();
	sr_trap_begin(sr_replay_page->pid);
	sr_tsc_begin(&sr_tsc_calls);
}

void sr_replay_start(void)
{
	void *page =
	    sr_sys_mmap(sr_heap_place_mapping(sizeof(*sr_replay_page)), sizeof(*sr_replay_page),
			PROT_READ | PROT_WRITE, MAP_SHARED, sr_fd_floor(), 0);

	if (sr_sys_is_error(page) || sr_children_start(leave_child_alone))
		for (;;)
			sr_syscall(SYS_exit_group, SR_REPLAY_EXIT_FAILED, 0, 0, 0, 0, 0);
	sr_replay_page = page;
	sr_uncompared = &sr_replay_page->uncompared;
	atomic_store(&sr_replay_page->process, (int32_t)sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0));
	sr_sys_close(sr_fd_floor());
	sr_fd_ordinary_below(sr_replay_page->descriptors_below);
	sr_replay_page->rings_fd = keep(sr_replay_page->rings_fd);
	if (sr_replay_page->group_fd >= 0)
		sr_replay_page->group_fd = keep(sr_replay_page->group_fd);
	if (sr_replay_page->watch_fd >= 0)
		sr_replay_page->watch_fd = keep(sr_replay_page->watch_fd);
	if (sr_replay_page->stacks_fd >= 0) {
		sr_replay_page->stacks_fd = keep(sr_replay_page->stacks_fd);
		sr_stacks_start(sr_replay_page->stacks_fd);
	}
	if (sr_replay_page->produced_fd >= 0)
		sr_replay_page->produced_fd = keep(sr_replay_page->produced_fd);
	sr_inherited_open(sr_replay_page->inherited);
	sr_replay_start_sums();
	take_files();
	sr_group_start(sr_replay_page);
	sr_tickets_start(sr_replay_page);
	sr_serial = sr_replay_page->serial;
	sr_has_huge_pages = sr_replay_page->huge_pages;
	sr_signals_start(true);
	sr_replay_start_places();
	sr_regions_start_replay(&(struct sr_exposed_hooks){
	    .recorded = sr_replay_exposed_event,
	    .expected = sr_replay_exposed_expected,
	    .quiet_until = sr_replay_quiet_until,
	    .awaits_late = sr_replay_awaits_late,
	    .is_before_tick = sr_replay_is_before_tick,
	    .accessed = sr_replay_page->watch_fd >= 0 ? sr_watch_accessed : NULL,
	    .unwatched = sr_replay_page->watch_fd >= 0 ? sr_watch_unwatched : NULL,
	    .step = sr_replay_page->watch_fd >= 0 ? sr_watch_step : NULL,
	    .patches = sr_replay_page->probes,
	    .stored = sr_group_stored,
	    .went_pass_through = sr_group_went_pass_through,
	    .was_pass_through = sr_group_was_pass_through,
	});
	if (sr_replay_page->watch_fd >= 0 && !sr_watch_start(sr_replay_page->watch_fd))
		fail();
	sr_stdio_pin(sr_replay_page->stdout_line_buffered);
	sr_main_stack_pin(sr_replay_page->main_stack);
	start_traps();
	sr_engine = &replay_engine;
}
