/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * polls.h: which threads poll completion queues, and since when (for retired.c).
 *
 * Each polling thread publishes the epoch in which its poll began.  An epoch ends whenever
 * queues are found drained.  No barrier is needed: a thread publishes its epoch before it takes
 * the provider's lock of the completion queue, and the thread that finds the queue drained
 * takes this lock after the threads that took the last completions.
 */
#ifndef SHIM_VERBS_POLLS_H
#define SHIM_VERBS_POLLS_H

#include <stdatomic.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/received.h"

struct sr_poller {
	_Atomic uint64_t since; /* 0: does not poll */
	atomic_bool taken;      /* belongs to a thread */
	struct sr_poller *next;
};

extern atomic_uint_fast64_t sr_poll_epoch SR_HIDDEN;

/*
 * Grows when what a thread knows about a completion queue may have become wrong: when one is
 * destroyed, or when a queue pair is retired that may have left completions in one.
 */
extern atomic_uint_fast64_t sr_poll_generation SR_HIDDEN;

/*
 * For a caller that makes the first real poll by itself (shim/record/polls.c), between
 * sr_poll_begins and sr_poll_ends. sr_poll_function returns the real function of poll_cq or
 * start_poll; NULL if there is none, or if retired queues have to be looked after.
 * sr_poll_follow does the rest of the call, whose first real poll returned `first`.
 */
void *sr_poll_function(const struct sr_call_desc *d, const uint64_t *a);
uint64_t sr_poll_follow(const struct sr_call_desc *d, uint64_t *a, uint64_t first);
/* Its second half for start_poll (cq_ex.c). */
uint64_t sr_poll_follow_start(const struct sr_call_desc *d, uint64_t *a, uint64_t first);

/* Called at a thread's first poll.  NULL: no memory. */
struct sr_poller *sr_poller_new(void);

/* Called at the end of a thread that has polled. */
void sr_poller_ends(struct sr_received *r);

/* The epoch in which the oldest current poll began. */
uint64_t sr_polls_oldest(void);

/* Waits until all current polls have ended, except `me` (may be NULL) and others that wait here. */
void sr_polls_await_others(struct sr_poller *me);

/* Called around a real poll and its sr_wq_complete. */

static inline void sr_poller_begins(struct sr_poller *p)
{
	atomic_store_explicit(&p->since, atomic_load_explicit(&sr_poll_epoch, memory_order_relaxed),
			      memory_order_relaxed);
}

static inline void sr_poller_pauses(struct sr_poller *p)
{
	atomic_store_explicit(&p->since, 0, memory_order_release);
}

static inline void sr_poll_begins(struct sr_received *r)
{
	if (__builtin_expect(!r->poller, 0))
		r->poller = sr_poller_new();
	if (r->poller)
		sr_poller_begins(r->poller);
}

static inline void sr_poll_ends(struct sr_received *r)
{
	if (r->poller)
		sr_poller_pauses(r->poller);
}

#endif
