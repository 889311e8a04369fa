/* SPDX-License-Identifier: BSD-2-Clause */
/* handlers.c: runs the program's signal handlers where the recording has them; see own.h. */
#include <signal.h>
#include <string.h>

#include "shim/core/hooks.h"
#include "shim/replay/own.h"
#include "shim/signals/cancellation.h"
#include "shim/signals/signals.h"

static bool comes_signal(struct sr_thread *t, struct sr_signal_payload *p)
{
	struct sr_replay_stream *s = t->stream;

	if (t->silent || t->ended || s->repeats_left || !sr_replay_peek(t) ||
	    s->next.kind != SR_REC_SIGNAL)
		return false;
	if (s->next.size < sizeof(*p))
		sr_replay_diverge(t, SR_REPLAY_BAD_RECORD, SR_REC_SIGNAL, 0);
	memcpy(p, s->next.payload, sizeof(*p));
	return true;
}

static bool is_between(const struct sr_signal_payload *p)
{
	return p->place == SR_SIGNAL_BETWEEN || p->place == SR_SIGNAL_AT_HEAP;
}

/* A call in which a handler runs. */
struct around {
	const struct sr_call_desc *d;
	uint64_t *a;
};

/*
 * A call that frees a number does so at its entry: another thread may have been given the number
 * before the handler had run.
 */
static void free_number(const struct around *call)
{
	if (call && call->d->replayed == sr_replayed_close)
		sr_replayed_close(call->d, call->a, 0);
}

/*
 * The handler runs and makes its calls before this function returns; or it jumps away.  call: NULL
 * between calls.
 */
static void run_handler(struct sr_thread *t, const struct sr_signal_payload *p,
			const struct around *call)
{
	siginfo_t info;

	_Static_assert(sizeof(info) == sizeof(p->info), "siginfo_t");
	t->stream->peeked = false;
	if (p->place == SR_SIGNAL_BETWEEN || (p->place == SR_SIGNAL_AT_HEAP && p->heap_position != t->heap_ops))
		atomic_fetch_add(&sr_replay_page->handlers_between, 1);
	if (p->entry) {
		sr_replay_await_ticket(t, p->entry);
		free_number(call);
		sr_replay_let_go(p->entry);
	}
	if (p->order)
		sr_replay_await_ticket(t, p->order);
	if (p->signo == SR_SIGNAL_CANCELS)
		sr_cancellation_prepare();
	/* Not before: another thread may be yet to install it. */
	if (!sr_signals_has_handler((int)p->signo))
		sr_replay_diverge(t, SR_REPLAY_DIVERGED, SR_REC_SIGNAL, 0);
	if (p->order)
		sr_replay_go_on(t, p->order);
	/* A place in the handler may come next. */
	if (!t->silent)
		sr_replay_peek(t);
	memcpy(&info, p->info, sizeof(info));
	t->stream->awaited = p->signo;
	t->stream->awaited_mask = p->mask;
	sr_signals_replay((int)p->signo, &info);
}

/* Is this the signal that the trace has here? */
bool sr_replay_signal(struct sr_thread *t, struct sr_signal_payload *p)
{
	if (!t->stream || t->stream->awaited != p->signo)
		return false;
	t->stream->awaited = 0;
	p->mask = t->stream->awaited_mask;
	return true;
}

/* In front of a call: runs the handlers of signals that came after the last call. */
void sr_replay_handlers_between(struct sr_thread *t)
{
	struct sr_signal_payload p;

	sr_replay_take_run_tokens_at_call(t);
	while (comes_signal(t, &p) && p.place != SR_SIGNAL_IN_CALL) {
		run_handler(t, &p, NULL);
		sr_replay_take_run_tokens_at_call(t);
	}
}

bool sr_replay_handler_comes_first(struct sr_thread *t)
{
	struct sr_signal_payload p;
	enum sr_heap before;
	bool comes;

	if (t->ended)
		return false;
	before = sr_enter(t);
	if (!t->started)
		sr_replay_start_thread(t);
	sr_replay_take_run_tokens_at_call(t);
	comes = comes_signal(t, &p) && p.place != SR_SIGNAL_IN_CALL;
	if (comes)
		run_handler(t, &p, NULL);
	sr_leave(t, before);
	return comes;
}

/* In a call.  Returns true if the event of its entry has happened. */
bool sr_replay_handlers_in_call(struct sr_thread *t, const struct sr_call_desc *d, uint64_t *a)
{
	const struct around call = {d, a};
	struct sr_signal_payload p;
	bool entered = false;

	/* The handlers' calls end before this one, so they have the lower SNs. */
	while (comes_signal(t, &p) && p.place == SR_SIGNAL_IN_CALL) {
		entered |= p.entry != 0;
		t->sn--;
		run_handler(t, &p, &call);
		sr_replay_take_run_tokens_at_call(t);
		t->sn++;
	}
	return entered;
}

/*
 * The program may wait for a handler without a call: the stall timer looks again.  A handler of
 * another level is not due yet, but may be as soon as this one returns to code without calls.
 */
static void await_between(struct sr_thread *t, bool comes, const struct sr_signal_payload *p)
{
	sr_signals_await_stall(t, comes && p->place == SR_SIGNAL_BETWEEN);
}

/* Behind a value that a load found: what comes next is known with the load after that. */
void sr_replay_handler_may_be_awaited(struct sr_thread *t)
{
	struct sr_signal_payload p;

	if (t->stream && t->stream->peeked && comes_signal(t, &p))
		await_between(t, true, &p);
}

static bool comes_after(struct sr_thread *t, struct sr_signal_payload *p)
{
	return comes_signal(t, p) && p->place == SR_SIGNAL_AFTER && p->level == t->signals.handlers;
}

/*
 * Runs the handlers of signals that came at the end of the call.  If one came later, while the
 * program computed, the program may wait for it without a call: then the stall timer delivers it.
 */
void sr_replay_handlers_after(struct sr_thread *t)
{
	struct sr_signal_payload p;
	bool comes;

	/* A further signal may follow a handler's last call, after the handler has returned. */
	while (comes_after(t, &p))
		run_handler(t, &p, NULL);
	comes = comes_signal(t, &p);
	await_between(t, comes, &p);
}

bool sr_replay_handler_comes_at_place(struct sr_thread *t)
{
	struct sr_signal_payload p;

	if (comes_after(t, &p))
		return true;
	await_between(t, comes_signal(t, &p), &p);
	return false;
}

static void run_at_place(struct sr_thread *t, bool same_place)
{
	struct sr_signal_payload p;
	enum sr_heap before = sr_enter(t);

	if (comes_after(t, &p) && same_place == !!(p.flags & SR_SIGNAL_SAME_PLACE)) {
		t->signals.at_place = SR_SIGNAL_BIT(p.signo);
		run_handler(t, &p, NULL);
	} else {
		await_between(t, comes_signal(t, &p), &p);
	}
	sr_leave(t, before);
}

void sr_replay_handler_at_place(struct sr_thread *t)
{
	run_at_place(t, false);
}

void sr_replay_returned_to_place(struct sr_thread *t)
{
	run_at_place(t, true);
}

/* Between two calls of the code that runs now. */
static bool runs_between(const struct sr_thread *t, const struct sr_signal_payload *p)
{
	return p->place == SR_SIGNAL_BETWEEN && p->level == t->signals.handlers;
}

/*
 * The program has made no call for a while: runs the handler that it may be waiting for.  It may
 * wait for several, one after the other.  In a section: to look at the next record may take long, where millions of clocks lie in
 * front of it, and another tick must not look meanwhile.
 */
void sr_replay_stalled(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);
	struct sr_signal_payload p;
	bool comes = comes_signal(t, &p);

	if (comes && runs_between(t, &p) && sr_exposed_faults() >= p.access) {
		run_handler(t, &p, NULL);
		comes = comes_signal(t, &p);
	}
	await_between(t, comes, &p);
	sr_leave(t, before);
}

bool sr_replay_handler_behind_access(struct sr_thread *t, uint64_t *access)
{
	struct sr_signal_payload p;

	if (!comes_signal(t, &p) || !runs_between(t, &p) || !p.access)
		return false;
	*access = p.access;
	return true;
}

/* In front of a heap operation: runs the handlers of signals that came after the last one. */
void sr_replay_handlers_at_heap(struct sr_thread *t)
{
	struct sr_signal_payload p;

	while (comes_signal(t, &p) && is_between(&p) && p.level == t->signals.handlers && p.heap_position == t->heap_ops) {
		run_handler(t, &p, NULL);
		await_between(t, comes_signal(t, &p), &p);
	}
}

void sr_replay_handlers_due_at_heap(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	sr_replay_handlers_at_heap(t);
	sr_leave(t, before);
}
