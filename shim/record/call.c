/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * call.c: turns a call into a record.
 *
 * The arguments are encoded before the real call, which may change what they point to; the
 * results after it. Then the record goes into the thread's ring in one piece, so a killed
 * program leaves only whole records.
 */
#include "shim/record/call.h"

#include <errno.h>
#include <pthread.h>

#include "shim/record/recording.h"
#include "shim/signals/signals.h"

/* ------------------------------------------------------------ cancellation */

struct cancellable {
	struct recording *r;
	int depth; /* the thread's, in the call */
	uint32_t handlers;
};

/* Called when the thread was cancelled in a real call and is being unwound. */
static void __attribute__((cold)) record_cancelled(void *argument)
{
	struct cancellable *c = argument;
	struct recording *r = c->r;
	struct sr_thread *t = r->t;
	uint64_t event;

	/* A handler ended the thread in the middle of the call, which then has no record. */
	if (t->signals.handlers != c->handlers)
		return;
	t->signals.interruptible = false;
	t->depth = c->depth;
	t->raw = false;
	sr_select(t);
	t->heap = SR_HEAP_SHIM;
	r->head.error = SR_ERROR_CANCELLED;
	event = sr_serial && !t->ended ? sr_serial_regain(t) : 0;
	r->order[r->head.orders++] = event ? event : sr_draw_event();
	emit(r, sr_serial ? SERIAL : PARALLEL);
	go_on(r, sr_serial ? SERIAL : PARALLEL);
	sr_leave(t, r->before);
}

static uint64_t __attribute__((noinline)) invoke_cancellable(struct recording *r)
{
	struct cancellable c = {r, r->t->depth, r->t->signals.handlers};
	uint64_t result;

	pthread_cleanup_push(record_cancelled, &c);
	result = sr_invoke(r->d, r->a);
	pthread_cleanup_pop(0);
	return result;
}

/* ----------------------------------------------------------------- a call */

/* Makes the real call. Its errno is at *error, where the program expects `saved`. */
INLINE void make(struct recording *r, int *error, int saved, const enum threads how)
{
	struct sr_thread *t = r->t;
	const struct sr_call_desc *d = r->d;
	uint64_t result;

	t->heap = SR_HEAP_LIBRARY;
	t->inside_rdmacm = d->source == SR_SOURCE_RDMACM;
	if (how == SERIAL)
		sr_serial_release(t, sr_serial_releasing(d));
	*error = saved;
	if (how != ALONE && d->flags & SR_CALL_CANCEL)
		result = invoke_cancellable(r);
	else
		result = sr_invoke(d, r->a);
	r->head.result = widen(d, result);
	r->head.error = *error;
	t->inside_rdmacm = false;
	t->heap = SR_HEAP_SHIM;
}

INLINE uint64_t record(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
		       const enum threads how)
{
	/*
	 * A separate variable, so that the compiler can keep the rest of the call's state in
	 * registers.
	 */
	struct sr_pinned pinned;
	struct recording r = {.t = t, .n = n, .d = &sr_calls[n], .a = a, .pinned = &pinned};
	int *error, saved;

	r.before = sr_enter(t);
	sr_pinned_none(&pinned);
	if (!t->started)
		sr_record_start_thread(t);
	error = t->error;
	saved = *error;
	begin(&r, site, how);
	make(&r, error, saved, how);
	end(&r, how);
	go_on(&r, how);
	sr_leave_call(t, r.before);
	*error = r.head.error;
	return r.head.result;
}

/* Three compiled versions, so that no call pays for what only the others need. */
static uint64_t __attribute__((noinline))
record_alone(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, ALONE);
}

static uint64_t __attribute__((noinline))
record_ordered(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, PARALLEL);
}

static uint64_t __attribute__((noinline))
record_in_ticket(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	return record(t, n, a, site, SERIAL);
}

static uint64_t __attribute__((noinline))
record_after_signals(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	sr_signals_take(t, SR_SIGNAL_BEFORE);
	return sr_threaded ? record_ordered(t, n, a, site) : record_alone(t, n, a, site);
}

uint64_t sr_record_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	if (__builtin_expect(t->signals.waiting, 0))
		return record_after_signals(t, n, a, site);
	return sr_threaded ? record_ordered(t, n, a, site) : record_alone(t, n, a, site);
}

uint64_t sr_record_serial_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site)
{
	if (t->signals.waiting)
		sr_signals_take(t, SR_SIGNAL_BEFORE);
	return sr_threaded ? record_in_ticket(t, n, a, site) : record_alone(t, n, a, site);
}
