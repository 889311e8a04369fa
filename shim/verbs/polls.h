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
#include "shim/core/received.h"

struct sr_poller {
	_Atomic uint64_t since; /* 0: does not poll */
	atomic_bool taken;      /* belongs to a thread */
	struct sr_poller *next;
};

extern atomic_uint_fast64_t sr_poll_epoch SR_HIDDEN;

/* Called at a thread's first poll.  NULL: no memory. */
struct sr_poller *sr_poller_new(void);

/* Called at the end of a thread that has polled. */
void sr_poller_ends(struct sr_received *r);

/* The epoch in which the oldest current poll began. */
uint64_t sr_polls_oldest(void);

/* Waits until all current polls have ended, except `me` (may be NULL) and others that wait here. */
void sr_polls_await_others(struct sr_poller *me);

/* Called around a real poll and its sr_wq_complete. */

static inline void sr_poll_begins(struct sr_received *r)
{
	if (__builtin_expect(!r->poller, 0))
		r->poller = sr_poller_new();
	if (r->poller)
		atomic_store_explicit(&r->poller->since,
				      atomic_load_explicit(&sr_poll_epoch, memory_order_relaxed),
				      memory_order_relaxed);
}

static inline void sr_poll_ends(struct sr_received *r)
{
	if (r->poller)
		atomic_store_explicit(&r->poller->since, 0, memory_order_release);
}

#endif
