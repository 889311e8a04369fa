/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_ring.h: a ring, and its requests under way; for the files of io_uring only. */
#ifndef SHIM_ASYNC_URING_RING_H
#define SHIM_ASYNC_URING_RING_H

#include <stdatomic.h>

#include "logd/base/lock.h"
#include "shim/async/uring.h"

/* Both rings of one side, and its requests. */
struct sr_uring_side {
	char *rings; /* NULL: a replay has no kernel's side */
	struct io_uring_sqe *requests;
};

/* A request that the kernel has, and may have ended.  In a replay: one that writes to a file. */
struct sr_uring_flight {
	struct sr_uring_flight *next, **at;
	uint64_t user_data;
	uint32_t number; /* of the ring's requests */
	uint8_t effect;
	int32_t fd;
	bool is_call;	/* the shim has made it as a system call: */
	int32_t result; /* ... with this result */
	/* Replay. */
	long offset, output_flags;
	/* What it reads, by its result, and what else it writes if it succeeds. */
	struct iovec *pieces;
	size_t n, beside;
	/* The kernel fills this instead of the first n pieces; NULL: it fills these. */
	char *copy;
	struct msghdr *message; /* the kernel's; NULL: it is no message */
	struct msghdr *of_program;
};

struct sr_uring {
	int fd;
	struct io_uring_params params;
	size_t rings_bytes, requests_bytes;
	struct sr_uring_side program, kernel;
	struct sr_lock lock;
	/*
	 * Recording: the thread that uses the ring, 1 + its number; 0: none yet, or several.  What comes into the ring of one is
	 * carried to it by that thread's calls only: where another one's would do it, nothing orders it with the owner's looks.
	 */
	uint32_t owner;
	bool is_shared;
	/* Requests whose last completion the program has not been given.  A replay counts completions first. */
	int32_t under_way;
	uint32_t submitted;
	struct sr_uring_flight *flights;
	int32_t *results; /* of requests that were made as system calls, by their place in the ring */
	/* Registered descriptors. */
	int32_t *files;
	uint32_t n_files;
};

/* A word of a ring that its other side may change. */
static inline _Atomic uint32_t *sr_uring_word(const struct sr_uring_side *side, uint32_t offset)
{
	return (_Atomic uint32_t *)(side->rings + offset);
}

static inline uint32_t sr_uring_load(const struct sr_uring_side *side, uint32_t offset)
{
	return atomic_load_explicit(sr_uring_word(side, offset), memory_order_acquire);
}

static inline void sr_uring_store(const struct sr_uring_side *side, uint32_t offset, uint32_t value)
{
	atomic_store_explicit(sr_uring_word(side, offset), value, memory_order_release);
}

static inline uint32_t *sr_uring_indices(const struct sr_uring *ring, const struct sr_uring_side *side)
{
	return (uint32_t *)(side->rings + ring->params.sq_off.array);
}

static inline struct io_uring_cqe *sr_uring_completions(const struct sr_uring *ring, const struct sr_uring_side *side)
{
	return (struct io_uring_cqe *)(side->rings + ring->params.cq_off.cqes);
}

/* What a request does with memory. */
enum sr_uring_does {
	SR_URING_UNKNOWN,
	SR_URING_GIVES,		/* it gives a result only */
	SR_URING_READS,		/* `len` bytes to `addr` */
	SR_URING_READS_LIST,	/* to `len` pieces at `addr` */
	SR_URING_READS_MESSAGE,
	SR_URING_WRITES,	/* the same, from there */
	SR_URING_WRITES_LIST,
	SR_URING_WRITES_MESSAGE,
	SR_URING_ACCEPTS,	/* a new socket, and the peer's address to `addr`, with its length at `addr2` */
	SR_URING_OPENS,		/* a new socket */
	SR_URING_CLOSES,
	SR_URING_CANCELS,	/* the request whose user_data is `addr` */
	SR_URING_CALLS,		/* what a system call does, too, which the shim makes when the request is submitted */
};

enum sr_uring_does sr_uring_does(unsigned int opcode);
bool sr_uring_writes(const struct io_uring_sqe *request);

/* Does the shim know the request as it is, with all its flags?  Others are refused. */
bool sr_uring_is_known(const struct io_uring_sqe *request);

/* The memory of a read or write: `one`, or the program's own list.  *n: 0 if it has none, or none that can be read. */
const struct iovec *sr_uring_pieces(const struct io_uring_sqe *request, struct iovec *one, size_t *n);
/* NULL: it cannot be read. */
const struct msghdr *sr_uring_message(const struct io_uring_sqe *request);

/* The descriptor that a request is about; -1: none. */
int sr_uring_file(const struct sr_uring *ring, const struct io_uring_sqe *request);

/*
 * Recording: makes the kernel's request of the program's.  result: of one that was made as a system call.  The flight is
 * the kernel's user_data.  NULL: no memory.  The ring is locked.
 */
struct sr_uring_flight *sr_uring_take_off(struct sr_uring *ring, const struct io_uring_sqe *request, int32_t result,
					  struct io_uring_sqe *kernels);

/* Replay: notes what the request, which has been submitted, is to write to a file. */
void sr_uring_note(struct sr_uring *ring, const struct io_uring_sqe *request, uint32_t number);

/* What it read is in the program's memory, and listed as received.  result: of its completion. */
void sr_uring_land(struct sr_uring_flight *flight, int32_t result);

/* The request is no longer under way. */
void sr_uring_forget(struct sr_uring_flight *flight);

/* Recording: the ring is used by this thread. */
void sr_uring_used(struct sr_uring *ring);

/* Replay: gives the program the completions that the trace has for the current call. */
void sr_uring_give_arrivals(void);

/* Recording: carries completions of this thread's rings to the program, and lists them and what they brought. */
void sr_uring_harvest(void);

/* Has the kernel completions for this thread's rings that the program has not been given?  Are requests under way? */
bool sr_uring_has_more(void);
bool sr_uring_waits(void);

/* Call while the thread does nothing but look at its rings. */
void sr_uring_looks(void *site);

/* Call where a ring is made, recording or in a replay: threads that only look at their rings are found from then on. */
void sr_uring_watch_spins(void);
/* Recording: this thread makes a call that can carry completions.  It has requests under way. */
void sr_uring_can_carry(void);
void sr_uring_may_spin(void);

/* Says by a flag whether requests are under way. */
void sr_uring_show_under_way(struct sr_uring *ring);

/* Calls f for each ring; no ring may end meanwhile. */
void sr_uring_each(void (*f)(void *ring, void *argument), void *argument);

#endif
