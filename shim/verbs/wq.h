/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wq.h: the internals of a work queue, for the modules that share them:
 *
 *   wq.c           queues, and requests at their post
 *   completions.c  the completions of a poll: the program's wr_ids, and the bytes received
 *   retired.c      queues of destroyed queue pairs, whose completions may still be polled
 */
#ifndef SHIM_VERBS_WQ_H
#define SHIM_VERBS_WQ_H

#include "shim/verbs/objects.h"

/* A cache line. */
#define APART 64

struct chunk;

struct sr_wq {
	/* Constant. */
	struct ibv_context *context;
	uint32_t max_sge;
	uint32_t room;
	bool ordered;
	void *copies;

	/* For posters, protected by posts; in cache lines that the poller does not touch. */
	char apart[APART];
	struct sr_lock posts;
	struct sr_wqe *free;
	struct sr_send_tail tail; /* ordered queues only */
	struct chunk *chunks;
	uint64_t count; /* all requests, free or not */
	uint64_t taken; /* the number of the last one */

	/* For pollers, protected by done. */
	char apart_again[APART];
	struct sr_lock done;
	struct sr_wqe *returned;      /* reported requests, free for posters */
	struct sr_received *received; /* of the current poll */
	struct sr_send_head head;     /* ordered queues only */
	struct sr_clock_qp *clock;
	uint32_t flushed_qp_num; /* receives: the queue pair of the last one that was flushed */
	uint64_t passed_count;   /* the program's requests that were passed; posters read it */

	struct sr_wq *_Atomic next_retired;
	uint64_t drained_at; /* in epochs of polls, see retired.c */
};

static inline struct sr_wqe *sr_wqe_next(const struct sr_wqe *wqe)
{
	return (struct sr_wqe *)wqe->request.next;
}

static inline void sr_wqe_put_in(struct sr_wqe **list, struct sr_wqe *wqe)
{
	wqe->request.next = *list ? &(*list)->request : NULL;
	*list = wqe;
}

/* No completion of the queue may be left to come. */
void sr_wq_destroy(struct sr_wq *wq);

/* Does any request wait for a completion? */
bool sr_wq_has_outstanding(struct sr_wq *wq);

/*
 * Lists the oldest receives that wait for completions, in the order of their posts, and returns how many.  One that was posted
 * before another one that has completed is listed once: a queue pair that has ended took it, and no completion will come.
 * Both locks are held.
 */
uint32_t sr_wq_oldest_receives(const struct sr_wq *wq, struct sr_wqe **oldest, uint32_t room);

#endif
