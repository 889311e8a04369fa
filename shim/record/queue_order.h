/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_order.h: the numbers of posts to one queue, and of completions that are polled from one, are in the queue's order.
 *
 * So nothing may come between the number and the real call (SR_ORDER_POSTS, SR_ORDER_POLLS).  If threads run one at a time, the
 * thread keeps the run token, else it holds a lock of the queue's.  Neither may be kept while the provider makes the thread
 * wait: until another thread has ended its batch, from wr_start or start_poll on.  That is waited for here.
 *
 * Recording only.
 */
#ifndef SHIM_RECORD_QUEUE_ORDER_H
#define SHIM_RECORD_QUEUE_ORDER_H

#include <stdint.h>

#include "logd/base/lock.h"
#include "shim/core/call.h"

struct sr_thread;

/* The thread has the run token, in front of its call. */
void sr_queue_await_batch(struct sr_thread *t, enum sr_call_number n, const uint64_t *a);

/* Threads run at the same time.  Returns the lock, which the caller releases. */
struct sr_lock *sr_queue_lock(enum sr_call_number n, const uint64_t *a);

/* In a forked child: the parent's threads hold none. */
void sr_queues_forget(void);

#endif
