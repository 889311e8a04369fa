/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * polls.h: which threads poll completion queues, and since when (retired.c).
 *
 * Each thread that polls says since which epoch it does; an epoch ends whenever
 * queues are found drained.  No barrier is needed: the thread that found them drained
 * had the completion queue's lock after the threads that took the last completions,
 * and these have said that they poll before they took the lock.
 */
#ifndef SHIM_VERBS_POLLS_H
#define SHIM_VERBS_POLLS_H

#include <stdatomic.h>

#include "logd/base/compiler.h"
#include "shim/core/received.h"

struct sr_poller {
	_Atomic uint64_t since; /* 0: does not poll */
	atomic_bool taken;      /* a thread's */
	struct sr_poller *next;
};

extern atomic_uint_fast64_t sr_poll_epoch SR_HIDDEN;

/* The thread's first poll.  NULL: there is no memory. */
struct sr_poller *sr_poller_new(void);

/* At the end of a thread that has polled. */
void sr_poller_ends(struct sr_received *r);

/* Since when the poll under way lasts that began first. */
uint64_t sr_polls_oldest(void);

/* Until all polls that are under way have ended; `me` itself is one of them, or NULL. */
void sr_polls_await_others(struct sr_poller *me);

/* Around a real poll and what sr_wq_complete makes of it. */

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
