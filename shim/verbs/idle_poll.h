/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle_poll.h: recording: a poll that finds nothing, as it did a moment ago, and has the same record.
 *
 * Loops that wait do little else.  The real poll and a count are all that it takes then: which polls came again, and
 * how often, is in one record (shim/record/cycle.h).  If the same one repeats, or several come in turn again and
 * again, the wrapper of ibv_poll_cq does it, else the record engine.
 *
 * The record engine says when that is enough.  Everything that could change its answer, but for what
 * sr_idle_poll_find() looks at, is a recorded call of this thread that is not of the data path, or of another one that
 * had the run token meanwhile (sr_idle_polls_forget()).
 */
#ifndef SHIM_VERBS_IDLE_POLL_H
#define SHIM_VERBS_IDLE_POLL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"

/* Where that poll is, or is to be; of another one its cq or site is another. */
struct sr_idle *sr_idle_poll_place(struct sr_thread *t, const uint64_t *a, uintptr_t site);

/* The thread's last call is that poll, which found nothing, with this errno. */
void sr_idle_poll_note(struct sr_thread *t, struct sr_idle *idle, const uint64_t *a, int error);

/*
 * Ends the thread's cycle, which is to be written now.  p: its record, of no calls if there is none to write.  Returns how
 * often the call in front, or that of the record, came again behind it: a REPEAT.
 */
uint64_t sr_idle_polls_close(struct sr_thread *t, struct sr_cycle_payload *p) NO_VECTORS;

/* Other threads of the program have run. */
static inline void sr_idle_polls_forget(struct sr_thread *t)
{
	t->idle.sn = UINT64_MAX - 1;
}

static inline bool sr_idle_poll_is(const struct sr_idle *idle, const uint64_t *a, const void *site)
{
	return !((idle->cq ^ a[0]) | (idle->entries ^ a[1]) | ((idle->wc ^ a[2]) & idle->wc_matters) |
		 ((uintptr_t)idle->site ^ (uintptr_t)site) | ((uintptr_t)idle->engine ^ (uintptr_t)sr_engine));
}

/* The poll that this one repeats, which may take the short way; NULL: it may not. */
static inline struct sr_idle *sr_idle_poll_find(struct sr_thread *t, const uint64_t *a, const void *site)
{
	struct sr_idle_polls *polls = &t->idle;
	struct sr_idle *idle = polls->last;

	if (__builtin_expect(!idle || (polls->sn ^ t->sn) | (uint64_t)t->depth | t->signals.waiting, 0))
		return NULL;
	if (idle->follower)
		idle = idle->follower;
	if (!sr_idle_poll_is(idle, a, site)) {
		for (idle = polls->of; idle < polls->of + SR_IDLE_POLLS && !sr_idle_poll_is(idle, a, site); idle++)
			;
		if (idle == polls->of + SR_IDLE_POLLS)
			return NULL;
	}
	return idle->since == polls->since && *t->error == idle->error && (!idle->exposed || sr_exposed_call_alone()) ? idle : NULL;
}

/* Is it the next one of the cycle that the thread is in? */
static inline bool sr_idle_poll_goes_on(const struct sr_thread *t, const struct sr_idle *idle)
{
	const struct sr_cycle *c = &t->idle.cycle;

	return t->repeats && t->repeats < c->most && c->period && c->of[c->at] == idle;
}

static inline void sr_idle_poll_count(struct sr_thread *t)
{
	struct sr_cycle *c = &t->idle.cycle;

	c->at = c->at + 1 < c->period ? c->at + 1 : 0;
	t->repeats++;
}

/* The poll's result. */
static inline int sr_idle_poll(struct sr_thread *t, uint64_t *a, struct sr_idle *idle)
{
	enum sr_heap before;
	int found;

	if (sr_threaded || !sr_idle_poll_goes_on(t, idle))
		return (int)sr_engine->polls_again(t, a, idle);
	before = sr_enter(t);
	t->heap = SR_HEAP_LIBRARY;
	found = (int)idle->poll(a[0], a[1], a[2]);
	t->heap = SR_HEAP_SHIM;
	if (__builtin_expect(found || *t->error != idle->error || !t->repeats, 0)) {
		t->received.polled = found;
		t->received.is_polled = true;
		return (int)sr_engine->polled(t, a, idle->site, before);
	}
	t->idle.last = idle;
	t->idle.sn = ++t->sn;
	sr_idle_poll_count(t);
	sr_leave_call(t, before);
	return 0;
}

#endif
