/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle_poll.h: the short way of a poll that finds nothing, like the one before it.
 *
 * Such a poll is one more repeat of the last record (SR_REC_REPEAT): a count is all that a
 * recording needs of it. The record engine notes when the thread's last record is that of a poll
 * that found nothing (sr_thread.idle). Then the wrapper of the same call, from the same site and
 * with the same arguments, makes the real poll at once. If that finds nothing either, it adds to
 * the count. If it finds something, the engine does the rest of the call.
 *
 * A signal that came before the poll waits until its end.
 */
#ifndef SHIM_CALLS_IDLE_POLL_H
#define SHIM_CALLS_IDLE_POLL_H

#include <errno.h>

#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/polls.h"
#include "shim/verbs/regions.h"

#define SR_ALWAYS_INLINE static inline __attribute__((always_inline))

/* Which of the calls it is, and its arguments but for the queue. */
SR_ALWAYS_INLINE uint64_t sr_poll_asked(enum sr_call_number n, const uint64_t *a)
{
	const struct ibv_poll_cq_attr *attr = (void *)a[1];

	if (n == SR_CALL_poll_cq)
		return (uint32_t)a[1];
	return attr ? 2ull << 32 | attr->comp_mask : 1ull << 32;
}

/* In exposed memory, arguments must not be read twice: each is an access of the program. */
SR_ALWAYS_INLINE bool sr_poll_reads_exposed(enum sr_call_number n, const uint64_t *a)
{
	return n != SR_CALL_poll_cq && a[1] && sr_regions_on &&
	       sr_exposed_touches((void *)a[1], sizeof(struct ibv_poll_cq_attr));
}

SR_ALWAYS_INLINE bool sr_poll_is_short(const struct sr_thread *t, enum sr_call_number n,
				       const uint64_t *a, const void *site)
{
	const struct sr_idle_poll *idle = &t->idle;

	return idle->queue == a[0] && idle->site == (uintptr_t)site && !t->depth &&
	       idle->generation ==
		   atomic_load_explicit(&sr_poll_generation, memory_order_relaxed) &&
	       !sr_poll_reads_exposed(n, a) && idle->asked == sr_poll_asked(n, a);
}

/* The real poll. Did it find nothing, as the last one? *made: what the engine needs if not. */
SR_ALWAYS_INLINE bool sr_poll_is_idle(struct sr_thread *t, int idle, const uint64_t *a,
				      struct sr_made_poll *made)
{
	t->heap = SR_HEAP_LIBRARY;
	sr_poller_begins(t->received.poller);
	made->result = t->idle.function(a[0], a[1], a[2]);
	made->error = *t->error;
	t->heap = SR_HEAP_SHIM;
	return (int)made->result == idle && made->error == t->idle.error;
}

/* Counts the poll, and ends its section. errno is as the real poll left it, but for handlers. */
SR_ALWAYS_INLINE uint64_t sr_poll_count(struct sr_thread *t, const struct sr_made_poll *made)
{
	t->repeats++;
	t->sn++;
	if (__builtin_expect(sr_leave_with_signals(t, made->before), 0)) {
		sr_signals_take(t, SR_SIGNAL_AFTER);
		*t->error = made->error;
	}
	return made->result;
}

/* The same in a process that has exposed regions or clocks, which each call looks after. */
uint64_t sr_poll_again_watched(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

SR_ALWAYS_INLINE uint64_t sr_poll_again(struct sr_thread *t, enum sr_call_number n, int idle,
					uint64_t *a, void *site)
{
	struct sr_made_poll made = {.before = sr_enter(t)};

	if (__builtin_expect(!sr_poll_is_idle(t, idle, a, &made), 0))
		return sr_engine->poll(t, n, a, site, &made);
	sr_poller_pauses(t->received.poller);
	return sr_poll_count(t, &made);
}

/* Enters the engine, or not at all; idle: the result of a poll that found nothing. */
SR_ALWAYS_INLINE uint64_t sr_call_poll(enum sr_call_number n, int idle, uint64_t *a, void *site)
{
	struct sr_thread *t = &sr_self;

	if (__builtin_expect(sr_poll_is_short(t, n, a, site), 1))
		return t->idle.watched ? sr_poll_again_watched(t, n, a, site)
				       : sr_poll_again(t, n, idle, a, site);
	return sr_engine && !t->depth ? sr_engine->poll(t, n, a, site, NULL) : sr_call(n, a, site);
}

#endif
