/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle_poll.h: recording: a poll that finds nothing, as it did a moment ago, and has the same record.
 *
 * Loops that wait do little else.  If nothing but the last poll is repeated, the wrapper of ibv_poll_cq does all of it:
 * it asks the provider and counts.  If several polls come in turn, the record engine writes the record that it has
 * written before.
 *
 * The record engine says when that is enough.  Everything that could change its answer, but for what
 * sr_idle_poll_find() looks at, is a recorded call of this thread, or of another one that had the run token meanwhile
 * (sr_idle_polls_forget()).
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

#define SR_KIND_POLL_CQ (SR_REC_CALL + SR_CALL_poll_cq)

/* The thread's last call is that poll, which found nothing; record: its payload. */
void sr_idle_poll_note(struct sr_thread *t, const uint64_t *a, uintptr_t site, int error, const struct sr_buf *record);

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

/* The poll that this one repeats; NULL: it takes the general way. */
static inline const struct sr_idle *sr_idle_poll_find(const struct sr_thread *t, const uint64_t *a, const void *site)
{
	const struct sr_idle_polls *polls = &t->idle;
	const struct sr_idle *idle = polls->last;

	if (__builtin_expect(!idle || (polls->sn ^ t->sn) | (uint64_t)t->depth | t->signals.waiting, 0))
		return NULL;
	if (!sr_idle_poll_is(idle, a, site)) {
		for (idle = polls->of; idle < polls->of + SR_IDLE_POLLS && !sr_idle_poll_is(idle, a, site); idle++)
			;
		if (idle >= polls->of + (polls->n < SR_IDLE_POLLS ? polls->n : SR_IDLE_POLLS))
			return NULL;
	}
	return *t->error == idle->error && (!idle->exposed || sr_exposed_call_alone()) ? idle : NULL;
}

/* The poll's result. */
static inline int sr_idle_poll(struct sr_thread *t, uint64_t *a, const struct sr_idle *idle)
{
	enum sr_heap before;
	int found;

	if (sr_threaded || !t->repeats || t->last_kind != SR_KIND_POLL_CQ || t->idle.last != idle)
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
	t->repeats++;
	t->idle.sn = ++t->sn;
	sr_leave_call(t, before);
	return 0;
}

#endif
