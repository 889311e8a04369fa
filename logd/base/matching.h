/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * matching.h: which work request a completion belongs to.
 *
 * The recorder (shim/verbs/wq.c), a replayed member of a group
 * (shim/replay/group/requests.c) and the analysis of traces
 * (replay/analysis/process) all ask this, and all get the answer from here.
 *
 * The rules of a send queue:
 *  - It completes in the order of its posts.  A completion of one request ends
 *    all requests in front of it; unsignaled ones have no other completion.
 *  - Several threads may poll one completion queue, and so report completions in
 *    another order than that of the queue.  A signaled request that a later
 *    completion has overtaken still has a completion to come.
 *  - If a request succeeds, so have all in front of it.  If one fails, those in
 *    front of it have succeeded, and those behind it are flushed.  After an error
 *    unsignaled requests have completions as well.
 *
 * A receive queue completes in the order of its posts, a shared receive queue in
 * any order: there the wr_id tells.
 *
 * Callers embed the requests in structs of their own and own their memory.
 * Nothing here allocates, locks or makes a call into a library.
 */
#ifndef LOGD_BASE_MATCHING_H
#define LOGD_BASE_MATCHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct sr_send_request {
	struct sr_send_request *next;     /* read and written as atomics */
	struct sr_send_request *previous; /* for sr_sends_take_back only */
	uint64_t wr_id;                   /* the program's */
	uint32_t generation;              /* of a struct sr_send_queue: see its reset */
	bool signaled;                    /* has a completion even if it succeeds */
	uint8_t completes_as;             /* enum ibv_wc_opcode; read for struct sr_send_queue only */
	bool passed;                      /* by its own completion or that of a later request */
	bool reported;                    /* no completion of it is to come */
};

/* What a completion means for the caller. */
struct sr_send_events {
	/* The device is done with the request. */
	void (*passed)(void *owner, struct sr_send_request *r);
	/*
	 * The request has ended.  A request that was overtaken ends twice: with the
	 * completion that overtook it, and with its own.
	 */
	void (*ended)(void *owner, struct sr_send_request *r, bool succeeded);
	/* The list has dropped the request.  Once it is reported, it may be freed. */
	void (*left)(void *owner, struct sr_send_request *r);
};

/* --------------------------------------------- the list of a send queue */

/*
 * The two ends of the list, so that a thread that posts and one that polls need
 * not exclude each other: the poster owns the tail, the poller the head.  The
 * list always has a request in it, the one passed last (at first a stub), so
 * that neither changes the other's end.
 */
struct sr_send_tail {
	struct sr_send_request *last;
};

struct sr_send_head {
	struct sr_send_request *passed; /* the outstanding requests begin behind it */
	bool failed;                    /* the last completion that was no flush was an error */
};

static inline void sr_sends_init(struct sr_send_tail *tail, struct sr_send_head *head,
				 struct sr_send_request *stub)
{
	stub->next = NULL;
	stub->passed = stub->reported = true;
	tail->last = head->passed = stub;
	head->failed = false;
}

static inline void sr_sends_append(struct sr_send_tail *tail, struct sr_send_request *r)
{
	r->next = NULL;
	r->previous = tail->last;
	/* Release: a poller that follows the link finds the request whole. */
	__atomic_store_n(&tail->last->next, r, __ATOMIC_RELEASE);
	tail->last = r;
}

/*
 * `first` and all behind it were not posted after all.  No poller is near: it goes
 * no further than to what has completed.  For the same reason the request in front
 * of `first` is still in the list: it leaves when a later one completes.
 */
static inline void sr_sends_take_back(struct sr_send_tail *tail, struct sr_send_request *first)
{
	tail->last = first->previous;
	__atomic_store_n(&tail->last->next, NULL, __ATOMIC_RELAXED);
}

static inline struct sr_send_request *sr_sends_first(const struct sr_send_head *head)
{
	return __atomic_load_n(&head->passed->next, __ATOMIC_ACQUIRE);
}

/*
 * A later request completed with this status: has `r`, which is not reported yet,
 * succeeded?  Nothing succeeds after a failure; what is in front of the failure
 * has.  A flush may be reported before the failure that caused it, which another
 * thread has polled then: a signaled request will speak for itself, and of an
 * unsignaled one all that can be said is that no failure of it was reported.
 */
static inline bool sr_sends_has_succeeded(const struct sr_send_head *head,
					  const struct sr_send_request *r, enum ibv_wc_status later)
{
	if (later == IBV_WC_SUCCESS)
		return true;
	return !head->failed && (later != IBV_WC_WR_FLUSH_ERR || !r->signaled);
}

/* The first outstanding request takes the place of the one that was passed before. */
static inline __attribute__((always_inline)) void
sr_sends_pass_first(struct sr_send_head *head, struct sr_send_request *first,
		    const struct sr_send_events *events, void *owner)
{
	struct sr_send_request *before = head->passed;

	first->passed = true;
	head->passed = first;
	events->passed(owner, first);
	events->left(owner, before);
}

static inline __attribute__((always_inline)) void
sr_sends_pass_up_to(struct sr_send_head *head, struct sr_send_request *done,
		    enum ibv_wc_status status, const struct sr_send_events *events, void *owner)
{
	struct sr_send_request *r;

	while ((r = sr_sends_first(head))) {
		sr_sends_pass_first(head, r, events, owner);
		if (r == done)
			break;
		if (r->reported)
			continue;
		events->ended(owner, r, sr_sends_has_succeeded(head, r, status));
		/* After an error, an unsignaled one may have a completion of its own as well. */
		r->reported = status == IBV_WC_SUCCESS && !r->signaled;
	}
}

/* A completion of `done`.  The events are known at compile time where that matters. */
static inline __attribute__((always_inline)) void
sr_sends_complete(struct sr_send_head *head, struct sr_send_request *done,
		  enum ibv_wc_status status, const struct sr_send_events *events, void *owner)
{
	if (done->reported)
		return; /* twice: not by a device that keeps the rules */
	if (!done->passed)
		sr_sends_pass_up_to(head, done, status, events, owner);
	if (status == IBV_WC_SUCCESS)
		head->failed = false;
	else if (status != IBV_WC_WR_FLUSH_ERR)
		head->failed = true;
	events->ended(owner, done, status == IBV_WC_SUCCESS);
	done->reported = true;
	if (done != head->passed)
		events->left(owner, done); /* a later one was reported first */
}

/* ------------------------------------ a send queue, with requests found by wr_id */

/*
 * For one thread at a time.  All requests that have a completion to come are found
 * by the wr_id of the completion: those that were overtaken as well.
 */
struct sr_send_queue {
	struct sr_send_tail tail;
	struct sr_send_head head;
	struct sr_send_request stub;
	struct sr_send_request *overtaken, *overtaken_last; /* in the order of the posts */
	uint32_t generation;                                /* of what is posted now */
	uint32_t completing;                                /* of what has completed last */
	uint32_t count;                                     /* that may have a completion to come */
};

/* No queue is so deep.  A trace that lacks completions keeps no more than this. */
#define SR_SEND_QUEUE_MAX 65536

void sr_send_queue_init(struct sr_send_queue *q);

/* r: wr_id, signaled and completes_as are set. */
void sr_send_queue_post(struct sr_send_queue *q, struct sr_send_request *r);

/* In the order of the posts, those that may have a completion to come.  r: NULL for the first. */
struct sr_send_request *sr_send_queue_next(const struct sr_send_queue *q,
					   const struct sr_send_request *r);
/* The same, of those that have a completion to come if they succeed. */
struct sr_send_request *sr_send_queue_next_signaled(const struct sr_send_queue *q, const struct sr_send_request *r);

/*
 * The request that a completion with this wr_id and status can be of.  NULL: none.  Of several
 * with one wr_id it is the right one as long as they are signaled, succeed, and one thread
 * polls; after a reset only if the wr_id or the opcode, which is that of the completion, is that
 * of what comes next: a request from before the reset or from after it.
 */
struct sr_send_request *sr_send_queue_find(const struct sr_send_queue *q, uint64_t wr_id,
					   enum ibv_wc_status status, enum ibv_wc_opcode opcode);

/*
 * A completion of `done`.  `left` is called for the requests that may be freed, that one
 * among them: all of them are reported, or it is not known whether they succeeded (a
 * reset), or their completions are missing.
 */
void sr_send_queue_complete(struct sr_send_queue *q, struct sr_send_request *done,
			    enum ibv_wc_status status, const struct sr_send_events *events,
			    void *owner);

/*
 * The queue pair was reset.  What had completed before may still be polled, so the
 * requests stay until a request that is posted from now on completes.
 */
void sr_send_queue_reset(struct sr_send_queue *q);

/* The queue pair was reset since the request was posted. */
static inline bool sr_send_queue_is_stale(const struct sr_send_queue *q,
					  const struct sr_send_request *r)
{
	return r->generation != q->generation;
}

/* Takes it out, whatever became of it: nothing is said of those in front of it. */
void sr_send_queue_remove(struct sr_send_queue *q, struct sr_send_request *r);

/*
 * A request failed, and it is not known which one.  Until one succeeds again, no completion
 * says that requests in front of its own have succeeded.
 */
void sr_send_queue_doubt(struct sr_send_queue *q);

/* Takes out the oldest request, whatever became of it; NULL: the queue is empty. */
struct sr_send_request *sr_send_queue_pop(struct sr_send_queue *q);

/* ------------------------------------------------------------ receives */

struct sr_recv_request {
	struct sr_recv_request *next;
	uint64_t wr_id;
};

/* A power of two: shared receive queues have some thousand requests. */
#define SR_RECV_HASHES 8192

struct sr_recv_queue {
	struct sr_recv_request *first, *last;
	/* How many requests there are with each hash of a wr_id, SR_RECV_HASHES of them, in the caller's memory; or NULL. */
	uint16_t *hashes;
};

void sr_recv_queue_post(struct sr_recv_queue *q, struct sr_recv_request *r);

/* The first from `r` on with this wr_id. */
struct sr_recv_request *sr_recv_find(struct sr_recv_request *r, uint64_t wr_id);

/* The request that a successful completion with this wr_id is of; NULL: none. */
struct sr_recv_request *sr_recv_queue_match(const struct sr_recv_queue *q, bool is_shared,
					    uint64_t wr_id);

/* Is no other request behind it with its wr_id? */
bool sr_recv_queue_is_last(const struct sr_recv_queue *q, const struct sr_recv_request *r);

/* Takes it out, from wherever it is. */
void sr_recv_queue_remove(struct sr_recv_queue *q, struct sr_recv_request *r);

struct sr_recv_request *sr_recv_queue_pop(struct sr_recv_queue *q);

#endif
