/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle_poll.h: recording: a poll that finds nothing, as the thread's last call did, and has the same record.
 *
 * Loops that wait do little else, so the wrapper of ibv_poll_cq does all of it: it asks the provider and counts.
 * The record engine says when that is enough.  Everything that could change its answer, but for what
 * sr_idle_poll_is_again() looks at, is a recorded call of this thread, the only one of the process.
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

/* The last record of the thread is that of this poll, which found nothing. */
void sr_idle_poll_repeats(struct sr_thread *t, const uint64_t *a, uintptr_t site, int error);

static inline bool sr_idle_poll_is_again(const struct sr_thread *t, uint64_t cq, uint64_t entries, uint64_t wc, void *site)
{
	const struct sr_idle *idle = &t->idle;
	uint64_t differs = (idle->cq ^ cq) | (idle->entries ^ entries) | ((idle->wc ^ wc) & idle->wc_matters) |
			   ((uintptr_t)idle->site ^ (uintptr_t)site) | ((uintptr_t)idle->engine ^ (uintptr_t)sr_engine) |
			   (uint64_t)(t->last_kind ^ SR_KIND_POLL_CQ) | (uint64_t)t->depth | t->signals.waiting | sr_threaded;

	return __builtin_expect(!differs && t->repeats, 1) && *t->error == idle->error &&
	       (!idle->exposed || sr_exposed_call_alone());
}

/* After sr_idle_poll_is_again().  The poll's result. */
static inline int sr_idle_poll(struct sr_thread *t, uint64_t *a)
{
	struct sr_idle *idle = &t->idle;
	enum sr_heap before = sr_enter(t);
	int found;

	t->heap = SR_HEAP_LIBRARY;
	found = (int)idle->poll(a[0], a[1], a[2]);
	t->heap = SR_HEAP_SHIM;
	if (__builtin_expect(found || *t->error != idle->error || !t->repeats, 0)) {
		t->received.polled = found;
		t->received.is_polled = true;
		return (int)sr_engine->polled(t, a, idle->site, before);
	}
	t->repeats++;
	t->sn++;
	sr_leave_call(t, before);
	return 0;
}

#endif
