/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * polls.c: records a poll. If it found nothing, the next one may take the short way of
 * shim/calls/idle_poll.h.
 */
#include <errno.h>

#include "shim/calls/idle_poll.h"
#include "shim/record/call.h"
#include "shim/record/recording.h"
#include "shim/signals/signals.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/polls.h"

/*
 * Notes whether the last record is that of this poll, and of one that found nothing. generation:
 * as it was before the poll.
 */
static inline void note_idle(const struct recording *r, uint64_t generation)
{
	struct sr_thread *t = r->t;
	struct sr_idle_poll *idle = &t->idle;

	idle->queue = 0;
	if ((int)r->head.result != r->d->idle || !t->last_size)
		return;
	idle->function = t->received.poller ? sr_poll_function(r->d, r->a) : NULL;
	if (!idle->function)
		return;
	idle->watched = sr_regions_on || sr_clocks_is_member();
	idle->generation = generation;
	idle->error = r->head.error;
	idle->site = r->head.site;
	idle->asked = sr_poll_asked(r->n, r->a);
	idle->queue = r->a[0];
}

INLINE uint64_t record(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
		       const struct sr_made_poll *made, const enum threads how)
{
	struct sr_pinned pinned;
	struct recording r = {.t = t, .n = n, .d = &sr_calls[n], .a = a, .pinned = &pinned};
	uint64_t generation = atomic_load(&sr_poll_generation), result;
	int *error, saved;

	r.before = made ? made->before : sr_enter(t);
	sr_pinned_none(&pinned);
	if (!t->started)
		sr_record_start_thread(t);
	error = t->error;
	saved = made ? made->error : *error;
	encode_arguments(&r, site, how);
	/* Before a poll that has been made, its maker has done that. */
	if (__builtin_expect(sr_regions_on, 0) && !made)
		sr_regions_call_begins(r.d, a, &pinned);
	draw_entry(&r, how);
	t->heap = SR_HEAP_LIBRARY;
	*error = saved;
	result = made ? sr_poll_follow(r.d, a, made->result) : sr_invoke(r.d, a);
	r.head.result = widen(r.d, result);
	r.head.error = *error;
	t->heap = SR_HEAP_SHIM;
	end(&r, how);
	note_idle(&r, generation);
	go_on(&r, how);
	sr_leave_call(t, r.before);
	*error = r.head.error;
	return r.head.result;
}

static uint64_t __attribute__((noinline))
record_alone(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
	     const struct sr_made_poll *made)
{
	return record(t, n, a, site, made, ALONE);
}

static uint64_t __attribute__((noinline))
record_ordered(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
	       const struct sr_made_poll *made)
{
	return record(t, n, a, site, made, PARALLEL);
}

uint64_t sr_record_poll(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
			const struct sr_made_poll *made)
{
	if (__builtin_expect(t->signals.waiting, 0) && !made)
		sr_signals_take(t, SR_SIGNAL_BEFORE);
	return sr_threaded ? record_ordered(t, n, a, site, made)
			   : record_alone(t, n, a, site, made);
}

/* Other threads may take the run token during each poll, so none takes the short way. */
uint64_t sr_record_serial_poll(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
			       const struct sr_made_poll *made)
{
	return sr_record_serial_call(t, n, a, site);
}
