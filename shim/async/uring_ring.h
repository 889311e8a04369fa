/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_ring.h: a ring, and its requests under way; for the files of io_uring only. */
#ifndef SHIM_ASYNC_URING_RING_H
#define SHIM_ASYNC_URING_RING_H

#include <stdatomic.h>
#include <sys/types.h>

#include "logd/base/lock.h"
#include "shim/async/uring.h"

/* Both rings of one side, and its requests. */
struct sr_uring_side {
	char *rings; /* NULL: a replay has no kernel's side */
	struct sr_uring_sqe *requests;
};

/* A request that the kernel has, and may have ended.  In a replay: one that writes to a file. */
struct sr_uring_flight {
	struct sr_uring_flight *next, **at;
	uint64_t user_data;
	uint64_t name; /* the kernel's user_data */
	uint32_t number; /* of the ring's requests */
	uint8_t effect;
	bool is_silent; /* it has no completion if it succeeds */
	bool chooses; /* the kernel chooses the buffer, of this group: */
	uint16_t group;
	int32_t fd;
	bool is_call;	/* the shim has made it as a system call: */
	int32_t result; /* ... with this result */
	bool writes;	/* to a file */
	/* Recording: to this file.  landed: its completion was there before the file was copied; is_late: not to be waited for. */
	dev_t device;
	ino_t inode;
	bool landed, is_late;
	long offset, output_flags;
	/* Replay. */
	int32_t kept; /* a duplicate of its descriptor, or -1 */
	/* What it reads, by its result, and what else it writes if it succeeds. */
	struct iovec *pieces;
	size_t n, beside;
	/* The kernel fills this instead of the first n pieces; NULL: it fills these. */
	char *copy;
	struct msghdr *message; /* the kernel's; NULL: the program's */
	struct msghdr *of_program;
};

/* Buffers of which the kernel chooses one. */
struct sr_uring_group {
	uint16_t id;
	struct iovec *buffers; /* by their numbers */
	uint32_t room;
	/* The program's ring of them, and how far it has been read; NULL: they are provided by requests. */
	struct sr_uring_buf *ring;
	uint32_t entries;
	uint16_t seen;
};

/* The program's user_data of the last requests, by their names: of all processes that share the ring after a fork. */
#define SR_URING_NAMES 4096
struct sr_uring_names {
	_Atomic uint32_t next;
	uint64_t user_data[SR_URING_NAMES];
};

#define SR_URING_FDS 8

struct sr_uring {
	struct sr_uring *next;
	uint32_t users; /* calls of other threads that hold it */
	bool has_ended; /* its descriptor is closed: the last user frees it */
	int fd; /* one of: */
	int fds[SR_URING_FDS];
	uint32_t n_fds;
	uint32_t number; /* the first descriptor's: in the names */
	struct sr_uring_names *names;
	struct sr_uring_params params;
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
	uint32_t given; /* recording: where the program's completions end, if no other process has given it any */
	bool polls;	  /* IORING_SETUP_SQPOLL: all that is there is submitted, whatever the program says */
	bool is_messaged; /* other rings send messages to it */
	uint32_t writing; /* recording: requests of this process under way that write to files */
	uint32_t closing; /* requests under way that close descriptors and are silent */
	struct sr_uring_flight *flights;
	int32_t *results; /* of requests that were made as system calls, by their place in the ring */
	/* Registered descriptors. */
	int32_t *files;
	uint32_t n_files;
	struct sr_uring_group *groups;
	uint32_t n_groups, groups_room;
};

/* May it get completions that the program has not been given? */
static inline bool sr_uring_is_awaited(const struct sr_uring *ring)
{
	return ring->under_way > 0 || ring->is_messaged;
}

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

static inline struct sr_uring_cqe *sr_uring_completions(const struct sr_uring *ring, const struct sr_uring_side *side)
{
	return (struct sr_uring_cqe *)(side->rings + ring->params.cq_off.cqes);
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
	SR_URING_PROVIDES,	/* `fd` buffers of `len` bytes at `addr` */
	SR_URING_UPDATES,	/* `len` registered descriptors from `off` on, from `addr` */
	SR_URING_MOVES_BYTES,	/* from one descriptor to another */
	SR_URING_MESSAGES,	/* a completion for the ring `fd` */
	SR_URING_CANCELS,	/* the request whose user_data is `addr` */
	SR_URING_CALLS,		/* what a system call does, too, which the shim makes when the request is submitted */
};

enum sr_uring_does sr_uring_does(unsigned int opcode);
bool sr_uring_writes(const struct sr_uring_sqe *request);

/* Does it send or receive?  These have flags of their own (ioprio). */
bool sr_uring_is_message(const struct sr_uring_sqe *request);

/* Does the shim know the request as it is, with all its flags?  Others are refused. */
bool sr_uring_is_known(const struct sr_uring_sqe *request);

/* Is it made as a system call?  Not a file that is opened without a number: the shim knows nothing of it. */
bool sr_uring_is_call(const struct sr_uring_sqe *request);

/* The memory of a read or write: `one`, or the program's own list.  *n: 0 if it has none, or none that can be read. */
const struct iovec *sr_uring_pieces(const struct sr_uring_sqe *request, struct iovec *one, size_t *n);
/* NULL: it cannot be read. */
const struct msghdr *sr_uring_message(const struct sr_uring_sqe *request);

/* The descriptor that a request is about; -1: none. */
int sr_uring_file(const struct sr_uring *ring, const struct sr_uring_sqe *request);

/*
 * Recording: makes the kernel's request of the program's.  result: of one that was made as a system call.  *flight: NULL for
 * a silent one.  False: no memory.  The ring is locked.
 */
bool sr_uring_take_off(struct sr_uring *ring, const struct sr_uring_sqe *request, int32_t result, struct sr_uring_sqe *kernels,
		       struct sr_uring_flight **flight);

/* What a submitted request changes in what is known of rings; in both runs. */
void sr_uring_has_submitted(struct sr_uring *ring, const struct sr_uring_sqe *request);

/* Replay: notes a request that has been submitted: what it reads is expected, what it does to files or descriptors is done when it ends. */
void sr_uring_note(struct sr_uring *ring, const struct sr_uring_sqe *request, uint32_t number);
/* ... and does that. */
void sr_uring_do_again(struct sr_uring *ring, struct sr_uring_flight *flight, const struct sr_uring_completion *c);

/* What it read is in the program's memory, and listed as received.  result, flags: of its completion. */
void sr_uring_land(const struct sr_uring *ring, struct sr_uring_flight *flight, int32_t result, uint32_t flags);

/* The request is no longer under way. */
void sr_uring_forget(struct sr_uring *ring, struct sr_uring_flight *flight);

/* By the kernel's user_data.  NULL: a silent request, or none of this process's. */
struct sr_uring_flight *sr_uring_flight_named(uint64_t name);

/* The kernel's user_data of a request under way that has the program's; and the other way round, for any process's. */
uint64_t sr_uring_name_of(const struct sr_uring *ring, uint64_t user_data);
uint64_t sr_uring_user_data_of(const struct sr_uring *ring, uint64_t name);

/* Registered descriptors change. */
void sr_uring_set_files(struct sr_uring *ring, uint32_t from, const int32_t *files, uint32_t n);

/* ---------------------------------------------- buffers that the kernel chooses (uring_buffers.c) */

/* False: no memory.  entries: of the program's ring. */
bool sr_uring_add_buffer_ring(struct sr_uring *ring, const struct sr_uring_buf_reg *registered);
void sr_uring_remove_group(struct sr_uring *ring, uint16_t id);
bool sr_uring_provide(struct sr_uring *ring, const struct sr_uring_sqe *request);

/* Call before completions are taken: finds what the program has put into its rings of buffers. */
void sr_uring_find_provided(struct sr_uring *ring);

/* The buffer that a completion names; NULL: none that is known. */
const struct iovec *sr_uring_chosen(const struct sr_uring *ring, const struct sr_uring_flight *flight, uint32_t flags);
void sr_uring_free_groups(struct sr_uring *ring);

/* ---------------------------------------------- when requests write to files (uring_files.c); recording only */

bool sr_uring_writes_file(const struct sr_uring_sqe *request);

/* Notes whether the flight, of a request that may, writes to a file, and to which. */
void sr_uring_find_file(struct sr_uring *ring, struct sr_uring_flight *flight, const struct sr_uring_sqe *request);

/* Call where a ring is made. */
void sr_uring_listen_to_copies(void);

/* Call before completions are taken, and before the run token is: what has ended can then be taken. */
void sr_uring_hold_files(void);
/* False: its file is held by another thread now. */
bool sr_uring_may_take(const struct sr_uring_flight *flight);

/* Is this thread about to close the ring, or to end the process, while requests write to files? */
bool sr_uring_ends_here(const struct sr_uring *ring);
/* If so, waits for requests that write to files. */
void sr_uring_await_end(void);
/* Makes the call that carries completions, also if there are none yet. */
void sr_uring_carry(void *site);

/* Recording: the ring is used by this thread. */
void sr_uring_used(struct sr_uring *ring);

/* Replay: gives the program the completions that the trace has for the current call. */
void sr_uring_give_arrivals(void);

/* Recording: carries completions of this thread's rings to the program, and lists them and what they brought. */
void sr_uring_harvest(void);

/* Recording: may this thread's calls carry the ring's completions? */
bool sr_uring_is_own(const struct sr_uring *ring);

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

void sr_uring_names_continue_in_child(void);

/* Says by a flag whether requests are under way. */
void sr_uring_show_under_way(struct sr_uring *ring);

/* Calls f for each ring; no ring may end meanwhile. */
void sr_uring_each(void (*f)(void *ring, void *argument), void *argument);

#endif
