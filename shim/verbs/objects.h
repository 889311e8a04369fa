/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * objects.h: the shim's state for the program's verbs objects.
 *
 *   context.c  opened devices: their operations before the shim patched them
 *   mr.c       memory regions: from (context, lkey) and an address in a
 *              scatter/gather list to the memory behind it
 *   wq.c       work queues: which request a completion belongs to (wq.h)
 *   queues.c, queue_pairs.c   completion queues, shared receive queues, queue pairs
 *   post_recv.c, post_send.c, builders.c   the three ways to post (posting.h)
 *   cq_ex.c    extended completion queues: the completion that is being read
 *
 * All functions are thread-safe.
 */
#ifndef SHIM_VERBS_OBJECTS_H
#define SHIM_VERBS_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "logd/base/compiler.h"
#include "logd/base/lock.h"
#include "logd/base/matching.h"
#include "shim/core/call.h"
#include "shim/core/completion.h"
#include "shim/core/received.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"

/* ------------------------------------------------------------- contexts */

struct sr_context {
	/* As the provider filled it in: context.ops; if it is extended, the rest as well. */
	struct verbs_context original;
	uint32_t number; /* from 1 on */
};

extern struct sr_map sr_contexts SR_HIDDEN;

/* NULL if the context was not opened through the shim. */
static inline struct sr_context *sr_context_find(struct ibv_context *context)
{
	return sr_map_get(&sr_contexts, (uintptr_t)context);
}

/* Saves the operations of a new context and puts the wrappers in their place. */
int sr_context_patch(struct ibv_context *context);
/* The context's pointer to this operation; NULL if it has no such operation. */
void **sr_context_slot(const struct sr_call_desc *d, struct ibv_context *context);
/* Replay: the context was rebuilt from the trace. */
void sr_context_made(struct ibv_context *context);
/* Patches only the operations that the shim needs in a process outside the group. */
int sr_context_patch_outside(struct ibv_context *context);
/* The number of contexts opened so far. */
uint32_t sr_contexts_seen(void);

void sr_context_forget(struct ibv_context *context);

/* The pointer that the wrapper of an operation replaced. */
static inline void *sr_context_original(struct ibv_context *context, size_t op_offset, bool verbs)
{
	const struct sr_context *c = sr_context_find(context);
	const void *container = c && !verbs ? (const void *)&c->original.context : (const void *)c;

	return c ? *(void *const *)((const char *)container + op_offset) : NULL;
}

/*
 * sr_real for the data path: calls an operation of context.ops that has three arguments.
 * `object`, the first one, belongs to `context`.
 */
static inline uint64_t sr_real_operation(const struct sr_call_desc *d, struct ibv_context *context,
					 const void *object, uint64_t second, const void *third)
{
	typedef uint64_t operation(uint64_t, uint64_t, uint64_t);
	operation *f = (operation *)sr_context_original(context, d->op_offset, false);

	return f ? f((uintptr_t)object, second, (uintptr_t)third) : sr_unavailable(d);
}

/* ------------------------------------------------------- memory regions */

/*
 * The memory that a scatter/gather entry refers to.  NULL if the CPU has no address for it
 * (device memory, an unknown key).
 */
void *sr_mr_memory(struct ibv_context *context, uint32_t lkey, uint64_t addr, uint32_t length);

/* The same for a completed request, whose region may have been deregistered since. */
void *sr_mr_written(struct ibv_context *context, uint32_t lkey, uint64_t addr, uint32_t length);

/*
 * The program unmaps or protects the range.  The device can still use regions registered there,
 * but the CPU may not be able to read them any more.
 */
void sr_mr_doubt(void *addr, size_t length);

/* Does a memory region have some of this page, so that the program can access it?  Any thread, in a call. */
bool sr_mr_has_page(void *page, size_t size);
/* Grows whenever that may have become another answer. */
uint64_t sr_mr_changes(void);
/* Those pages that were ever registered, by number (shim/access/access.h). */
const uint8_t *sr_mr_pages(void);

void sr_mr_add(struct ibv_mr *mr, void *addr, size_t length, uint64_t iova);

/* ---------------------------------------------------------- work queues */

struct sr_wq;
struct sr_clock_qp;

/* What the completion of a request says about its buffers. */
enum sr_wqe_kind {
	SR_WQE_SOURCE, /* sends and writes: nothing was written to them */
	SR_WQE_FETCH,  /* RDMA READ and atomics: the whole scatter list was written */
	SR_WQE_RECV,   /* byte_len bytes of the scatter list were written */
};

/* The program's request, or one of the shim's (clocks.h). */
enum sr_wqe_role {
	SR_WQE_PROGRAM,
	SR_WQE_CLOCK,
	SR_WQE_READER,
};

#define SR_WQE_MAGIC 0x73725f7771655f31ull

/* A work request from its post to its completion.  The provider gets its address as the wr_id. */
struct sr_wqe {
	struct sr_send_request request; /* must be first; a receive uses only the wr_id */
	uint64_t magic;
	struct sr_wq *wq;
	uint64_t number; /* in the order of the posts; 0: it was not posted */
	uint64_t beginning; /* with --order: a checksum of what a receive's memory began with (buffers.h) */
	enum sr_wqe_kind kind;
	enum sr_wqe_role role;
	bool stands;  /* READER: completes for the program's request in front of it */
	bool dropped; /* READER: the request in front failed, with a completion of its own */
	bool fetches; /* with --order: it brings something into exposed memory (sr_exposed_fetch_begins) */
	uint64_t remote; /* with --order: a READ's address in the peer's memory */
	/* CLOCK: the request behind it.  Program's request: the READER behind it, or NULL. */
	struct sr_wqe *other;
	/* READER: opcode and byte_len for the completion of the request in front of it. */
	enum ibv_wc_opcode opcode;
	uint32_t length;
	/*
	 * Program's request: its CLOCK failed with this error, and the request itself was only
	 * flushed.
	 */
	enum ibv_wc_status lent_status;
	uint32_t lent_vendor_err;
	uint64_t posted_at; /* with sr_picks_on: the process's last event then */
	struct {
		uint64_t sn, checksum;
		uint32_t thread, number;
		bool on;
	} checked; /* checked.h */
	uint32_t num_sge;
	struct ibv_sge sge[];
};

struct sr_qp {
	struct ibv_qp *qp;
	bool sig_all; /* all sends are signaled */
	struct sr_wq *sq;
	struct sr_wq *rq;          /* NULL with a shared receive queue */
	struct sr_clock_qp *clock; /* NULL: no clocks; see clocks.h */
	uint64_t posted;           /* number of the program's requests posted to sq */
	/* The request between a builder call and its set_sge, and the first since wr_start. */
	struct sr_wqe *building;
	struct sr_wqe *batch;
	/* Since wr_start: was an event drawn, and which fetch has no READER behind it yet? */
	bool batch_has_event;
	bool overfull; /* the batch has more requests than the program's queue would have taken */
	struct sr_wqe *unread;
	enum ibv_wr_opcode unread_opcode;
	uint64_t batch_posted; /* `posted` at wr_start */
	const struct sr_thread *_Atomic builder; /* from wr_start on; NULL: there is no batch */
};

/* Has another thread begun a batch for it?  Whoever posts waits until that has ended. */
bool sr_qp_is_taken(struct ibv_qp *qp);

/* ordered: completes in the order of the posts (send queues).  depth: of outstanding requests. */
struct sr_wq *sr_wq_create(struct ibv_context *context, uint32_t max_sge, uint32_t depth,
			   bool ordered);
struct sr_wq *sr_wq_create_alike(const struct sr_wq *wq);

uint32_t sr_wq_max_sge(const struct sr_wq *wq);

/*
 * The program destroyed the queue.  Its requests stay valid as long as `cq` may hold completions
 * of them.
 */
void sr_wq_retire(struct sr_wq *wq, struct ibv_cq *cq);

/* Held across a post.  The functions from here to sr_wq_unappend need this lock. */
void sr_wq_lock_posts(struct sr_wq *wq);
void sr_wq_unlock_posts(struct sr_wq *wq);

/*
 * Takes the lock and returns an array for the copy of a chain: of struct ibv_send_wr (ordered)
 * or ibv_recv_wr.  It has one element more than the queue's depth, so every chain that the
 * queue can take fits.
 */
void *sr_wq_begin_posts(struct sr_wq *wq, uint32_t *room);

/* The queue pair whose clocks the requests carry, or that the queue receives for; NULL at its destruction. */
void sr_wq_set_clock(struct sr_wq *wq, struct sr_clock_qp *clock);
/* Ordered queues: the number of the program's requests that the poller has passed. */
uint64_t sr_wq_passed(const struct sr_wq *wq);

/* Makes a request with the buffers that are full at its completion (sge may be NULL). */
struct sr_wqe *sr_wqe_take(struct sr_wq *wq, uint64_t wr_id, enum sr_wqe_kind kind,
			   const struct ibv_sge *sge, uint32_t num_sge);

/*
 * The request is a fetch, or a receive of datagrams, and is about to be posted.  What it brings into exposed memory is
 * recorded with --order, too: a replay does not produce it again.
 */
void sr_wqe_note_target(struct sr_wqe *wqe);
/* With --order: messages will come into the receive's memory. */
void sr_wqe_note_receive(const struct sr_wqe *wqe);

/* The request that was posted under this wr_id; NULL if the wr_id is not one of the shim's. */
static inline struct sr_wqe *sr_wqe_of(uint64_t wr_id)
{
	struct sr_wqe *wqe = (void *)(uintptr_t)wr_id;

	if (wr_id & 7 || !sr_heap_in_shim_arena(wqe, sizeof(*wqe)) || wqe->magic != SR_WQE_MAGIC)
		return NULL;
	return wqe;
}

/* Gives back a request that was neither posted nor appended. */
void sr_wqe_give_back(struct sr_wqe *wqe);

/* Send queues complete in order, so their requests are kept in a list in post order. */
void sr_wq_append(struct sr_wq *wq, struct sr_wqe *wqe);
/* Takes back the requests from `first` to the end of the list. */
void sr_wq_unappend(struct sr_wq *wq, struct sr_wqe *first);

/*
 * Handles the completions of one poll: restores the program's wr_ids, adds the memory that they
 * prove to be written to `received`, and removes the completions of the shim's own requests.
 * Returns how many are left.
 */
int sr_wq_complete(struct ibv_wc *wc, int n, struct sr_received *received);

/* Are messages of recorded peers left out of the records of polls (--order)? */
extern bool sr_leaves_out SR_HIDDEN;
/* Replay: the record of the poll lacks these bytes. */
struct sr_left_out;
void sr_received_expect(struct sr_received *r, void *p, const struct sr_left_out *l);

/* Lists what a call brought that is no poll.  What lies in exposed memory is left out: loads find it there. */
void sr_received_none(struct sr_received *r);
void sr_received_add(struct sr_received *r, void *p, uint32_t length);

/*
 * The queue pair that sends or receives by this queue is reset or destroyed: lists the memory of outstanding fetches, or of the
 * oldest receives, which may have brought bytes although no completion will say so.  NULL: does nothing.
 */
void sr_wq_abandon(struct sr_wq *wq, struct sr_received *received);

/* Completion queues created through the shim; requests of other queues keep their wr_ids. */
struct sr_cq;

/* The depth to create a queue with if the program asks for `cqe`. */
int sr_cq_depth(int cqe);

void sr_cq_add(struct ibv_cq *cq);
bool sr_cq_known(struct ibv_cq *cq);

/* Around a destroy: take it out before; then free it, or put it back if the destroy failed. */
struct sr_cq *sr_cq_take(struct ibv_cq *cq);
void sr_cq_put_back(struct ibv_cq *cq, struct sr_cq *c);
void sr_cq_free(struct sr_cq *c);

/*
 * Around a poll: the first function returns the work queues retired before it.  If the poll
 * finds fewer completions than it asked for, the second one notes that none is left of these.
 */
static inline struct sr_wq *sr_cq_retired(struct ibv_cq *cq);
void sr_cq_drained(struct ibv_cq *cq, struct sr_wq *retired);

/* There is nearly always none; then this costs a poll one comparison. */
extern atomic_bool sr_any_retired SR_HIDDEN;
struct sr_wq *sr_cq_find_retired(struct ibv_cq *cq);

static inline struct sr_wq *sr_cq_retired(struct ibv_cq *cq)
{
	if (__builtin_expect(!atomic_load_explicit(&sr_any_retired, memory_order_relaxed), 1))
		return NULL;
	return sr_cq_find_retired(cq);
}

/* ------------------------------------------- extended completion queues */

/* The completion that start_poll or next_poll found last; NULL if the queue is not extended. */
struct sr_completion *sr_cq_current(const struct ibv_cq_ex *cq);

/* Around a destroy, like sr_cq_take and sr_cq_put_back. */
struct sr_cq_ex *sr_cq_ex_take(struct ibv_cq *cq);
void sr_cq_ex_put_back(struct ibv_cq *cq, struct sr_cq_ex *c);

bool sr_cq_is_extended(const struct ibv_cq *cq);
/* Is another thread between start_poll and end_poll?  Whoever polls waits until that has ended. */
bool sr_cq_is_taken(const struct ibv_cq *cq);

/* ------------------------------------------------------------ queue pairs */

extern struct sr_map sr_qps SR_HIDDEN;

/* NULL if it was not created through the shim. */
static inline struct sr_qp *sr_qp_find(struct ibv_qp *qp)
{
	return sr_map_get(&sr_qps, (uintptr_t)qp);
}

struct sr_wq *sr_srq_find(struct ibv_srq *srq);

#endif
