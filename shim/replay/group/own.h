/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own.h: the interface between the group's modules inside a replayed process.
 *
 *   group.c     the calls that matter, and which member depends on which
 *   progress.c  how far the members are, and what each knows of the others
 *   channel.c   messages from one queue pair to another
 *   history.c   all writes to each member's memory
 *   landed.c    which writes a value consists of that the trace leaves out (landed.h)
 *   read_again.c  what a READ found that the trace leaves out (read_again.h)
 *   fetches.c   where a process's own READs and atomics put their results (fetches.h)
 *   contents.c  what a process itself stores where its peers may READ it
 *   transfer.c  moves bytes from member to member: through the file, or over a device
 *   picks.c     whose completions are, where the trace does not say it
 *   requests.c, posts.c, completions.c   queue pairs and their requests (requests.h)
 *   datagrams.c  what queue pairs without a connection send (datagrams.h)
 *   values.c    compares values with what the group produced, and reports them
 *
 * A caller holds sr_group_lock.  There are two exceptions: any thread may call progress.c at
 * any time, and sr_value_seen and contents.c need the lock of the exposed regions.  That lock
 * is taken after sr_group_lock.
 */
#ifndef SHIM_REPLAY_GROUP_OWN_H
#define SHIM_REPLAY_GROUP_OWN_H

#include <infiniband/verbs.h>

#include "replay/abi/group.h"
#include "logd/base/lock.h"
#include "shim/core/thread.h"

extern struct sr_group *sr_group_memory;
extern struct sr_replay_control *sr_group_control;
extern uint32_t sr_group_self; /* this process's number as a member */
extern struct sr_lock sr_group_lock;

static inline bool sr_group_over_device(void)
{
	return sr_group_memory->transport == SR_GROUP_RXE;
}

/* The group's file behind its mapped part.  Bytes that cannot be read are returned as zeros. */
void sr_group_read(uint64_t at, void *p, size_t n);
void sr_group_write(uint64_t at, const void *p, size_t n);
/*
 * The same through a mapping of the file, where there is one, for memory of the shim's own: the program's need not be
 * there.  With a system call for each entry of the history, members waited for each other's in the kernel.
 */
void sr_group_read_own(uint64_t at, void *p, size_t n);
void sr_group_write_own(uint64_t at, const void *p, size_t n);
/* A part of the bytes to write. */
struct sr_piece {
	const void *p;
	uint32_t length;
};
/* Writes n pieces one after the other. */
void sr_group_write_pieces(uint64_t at, const struct sr_piece *pieces, uint32_t n);
/* The same for the program's memory, which may be protected: see sr_group_copy. */
void sr_group_write_memory(uint64_t at, const void *p, size_t n);
/*
 * Copies the program's memory as the program has seen it.  In an exposed region a plain load
 * would fault, and would count as an access of the program.  Memory that is not there any more is copied as zeros.
 */
void sr_group_copy(void *to, const void *from, size_t n);
/* Frees the pages of the file that lie wholly in the range. */
void sr_group_discard(uint64_t from, uint64_t to);

/* It was waited for this member in vain, because it has ended. */
void sr_group_has_ended(uint32_t member);

/* ------------------------------------------------------------ progress.c */

/* The thread has entered this call. */
void sr_progress_enter(uint32_t thread, uint64_t sn);
/* ... or has come to this stop behind it (sr_group_stop). */
void sr_progress_stop(uint32_t thread, uint64_t sn, uint64_t stop);
/* ... or one for which nobody waits; others see that this process is not stuck. */
void sr_progress_move(void);

/*
 * A post to this queue pair begins: counts a new tick of this process.  The caller then adds the requests and calls
 * sr_progress_enter.
 */
struct sr_group_origin sr_progress_post(const struct sr_thread *t, uint32_t qp_num);

/* Returns where the thread is.  Stores the known ticks of all members in `knows`, if not NULL. */
struct sr_group_origin sr_progress_now(const struct sr_thread *t, uint64_t *knows);

/*
 * Waits until another member's thread has come there, and takes over the ticks that this
 * thread knew then.  Returns false if that member ended before.
 */
bool sr_progress_wait(struct sr_thread *t, const struct sr_group_wait *w);

/* Waits until so many messages were posted.  Returns false if the sender ended before. */
bool sr_progress_wait_posted(struct sr_thread *t, const struct sr_group_channel *c,
			     uint64_t messages);

/*
 * Waits until is_so(), or until the member cannot make it true any more because it has ended or
 * waits for others.
 */
void sr_progress_until(uint32_t member, bool (*is_so)(void *argument), void *argument);

/* How many calls all members have entered. */
uint64_t sr_progress_moves(void);

/* Waits until no member makes any more calls. */
void sr_progress_linger(void);

/* The member's latest call that this process is known to come after; SN 0: none. */
struct sr_group_origin sr_progress_seen(uint32_t member);

/* ------------------------------------------------------------- channel.c */

/* NULL if there are too many channels. */
struct sr_group_channel *sr_channel(const struct sr_group_key *key);
/* NULL if nobody has asked for it yet. */
struct sr_group_channel *sr_channel_if_any(const struct sr_group_key *key);

/* ---------------------------------------------------------------- transfer.c */

/* The request that sends bytes to a member over a device. */
struct sr_transfer_by {
	struct sr_group_channel *channel;
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t imm_data;
	uint64_t remote_addr; /* of a WRITE */
	uint64_t arrives;     /* of a message: how many have arrived, including this one */
};

/*
 * Transfers these pieces to their place.  Through the file (by: NULL) they are there when this
 * function returns.  Otherwise it only adds a work item, which the proxy executes after all
 * earlier work items of all members; sr_transfer_failed reports a failure later.
 */
void sr_transfer(const struct sr_transfer_by *by, struct sr_group_place to, const struct sr_piece *pieces,
	      uint32_t n);

/*
 * A READ of `length` bytes of the peer's memory, and an atomic.  They are made again for their
 * effect at the peer; their results are in the trace.
 */
void sr_transfer_read(struct sr_group_channel *c, uint64_t remote_addr, uint32_t length);
struct sr_carried_atomic {
	uint32_t opcode;
	uint64_t remote_addr, compare_add, swap;
	uint64_t result; /* of the recording; the proxy stores it in any case */
};
void sr_transfer_atomic(struct sr_group_channel *c, const struct sr_carried_atomic *a);

/* The process has stored these bytes into its own memory. */
void sr_transfer_own(uint64_t addr, const void *bytes, uint32_t n);

/* Later transfers belong to this call. */
void sr_transfer_for(const struct sr_group_call *of);

/* Waits until the message's bytes have arrived, or cannot arrive any more. */
void sr_transfer_await(const struct sr_group_channel *c, const struct sr_group_message *m);

/* Waits until what all members have asked for so far is done, or will not be done. */
void sr_transfer_await_members(void);

/* Waits until all transfers of this process are done.  Returns false if one failed. */
bool sr_transfer_all(void);

/* The call whose transfer failed, and why; NULL: none has failed so far. */
const struct sr_group_call *sr_transfer_failed(const char **why);

/* ------------------------------------------------- channel.c: appending to one */

/* Appends a message that consists of these pieces.  written: by a WRITE with immediate data. */
void sr_channel_send(struct sr_group_channel *c, const struct sr_group_origin *origin,
		     uint32_t opcode, const struct sr_transfer_by *by, const struct sr_piece *pieces,
		     uint32_t n, uint32_t written);

/* Reads message `number`, which must have been posted. */
void sr_channel_message(const struct sr_group_channel *c, uint64_t number,
			struct sr_group_message *m);
/* Reads n bytes of the message, from offset `from` on, into memory of the shim's own. */
void sr_channel_bytes(const struct sr_group_channel *c, const struct sr_group_message *m,
		      uint32_t from, void *p, uint32_t n);
/* The receiver no longer needs this message or those before it. */
void sr_channel_release(struct sr_group_channel *c, const struct sr_group_message *m);

/* ------------------------------------------------------------- history.c */

/* Adds a write of these bytes to `addr` in the member's memory. */
void sr_history_add(uint32_t member, const struct sr_group_origin *origin,
		    enum sr_group_write_kind kind, uint64_t addr, const struct sr_transfer_by *by,
		    const struct sr_piece *pieces, uint32_t n);
/* Adds an atomic operation on 8 bytes, perhaps a compare-swap; its result follows later.  Returns its number. */
uint64_t sr_history_add_atomic(uint32_t member, const struct sr_group_origin *origin, uint64_t addr, bool swaps, const struct sr_group_operands *o);
/* What such a request to this process's memory, whose result is not known, makes of the word. */
uint64_t sr_history_atomic(const struct sr_group_write *w, uint64_t before);
/* The number of writes so far to the member's memory. */
uint64_t sr_history_writes(uint32_t member);
/* Reads writes to the member's memory, from this number on, at most n; returns how many. */
uint32_t sr_history_read(uint32_t member, uint64_t number, struct sr_group_write *w, uint32_t n);
/* Bytes of these writes, into memory of the shim's own: `at` as in struct sr_group_write. */
void sr_history_bytes(uint32_t member, uint64_t at, void *p, uint32_t n);
/* From now on this range of the member's own memory may hold anything: a write of a kind that has no bytes. */
void sr_history_add_unseen(const struct sr_group_origin *origin, enum sr_group_write_kind kind, uint64_t addr, uint32_t n);
/* The atomic `number` stored this value; or it changed nothing. */
void sr_history_resolve(uint32_t member, uint64_t number, uint64_t addr, uint64_t value);
void sr_history_void(uint32_t member, uint64_t number, uint64_t addr);

/* ------------------------------------------------------------ contents.c */

/* Called once.  Returns false if there is no memory. */
bool sr_contents_begin(void);
/* The memory becomes an exposed region: adds its contents to the history. */
void sr_contents_region(struct sr_thread *t, uint64_t addr, uint64_t length);
/* From now on, bytes that the process requested may arrive in this range: a kind without bytes. */
void sr_contents_expected(const struct sr_group_origin *origin, enum sr_group_write_kind kind, uint64_t addr, uint32_t n);
/* What the page was before it was passed through; NULL: it is not, or there is no copy. */
const uint8_t *sr_contents_before(uint64_t page);
/* The program finds these bytes of a page there next. */
void sr_contents_given(uint64_t addr, const uint8_t *bytes, uint32_t n);

/* ------------------------------------------------------------ requests.c */

void sr_requests_peer(const struct sr_group_peer *p);
/* Handles calls that create, connect or destroy queue pairs, post, or poll. */
void sr_requests_call(struct sr_thread *t, enum sr_call_number n, const uint64_t *a,
		      uint64_t result);

/* -------------------------------------------------------------- values.c */

/* Bytes that entered at this call of the thread: a value record, or a part of one. */
struct sr_value {
	struct sr_thread *t;
	uint64_t addr;
	const uint8_t *bytes; /* as recorded; may lie in the program's memory */
	uint32_t length;
	/* 0: entered at the call itself; else at this load of the thread after the call */
	uint32_t fault;
	bool written; /* by process_vm_writev of another process */
};

/* Do other outstanding receives use the same memory? */
enum sr_sharing {
	SR_NOT_SHARED,
	SR_SHARED_ALIKE,   /* yes, at the same address */
	SR_SHARED_SHIFTED, /* yes, at other addresses */
};

/* What else may have landed in the memory of a receive, and over its message. */
struct sr_landing {
	/* Asked only where bytes differ: it goes through all receives that are posted. */
	enum sr_sharing (*sharing)(const void *receives, uint64_t addr, uint32_t n);
	const void *receives;
	uint64_t fetched_after; /* what this process fetched and had not got at that end: fetches.h */
};

/* A message brought the value; `from`: its offset in the message. */
void sr_value_received(const struct sr_value *v, struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from, const struct sr_landing *landing);
/* The network has put it in front of this datagram: it came with it, and is not compared. */
void sr_value_is_header(const struct sr_value *v, const struct sr_group_message *m);
/* The record lacks the value's bytes: stores those of the message in the program's memory. */
void sr_value_produced(const struct sr_value *v, struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from);
/* Are the bytes of the value those of the message? */
bool sr_value_is_sent(const struct sr_value *v, const struct sr_group_channel *c,
		      const struct sr_group_message *m, uint32_t from);

/*
 * This READ or atomic fetched the value from the member's memory; unless others did, whose elements have the number
 * `later` or a higher one (fetches.h).
 */
void sr_value_fetched(const struct sr_value *v, uint32_t member, uint64_t remote_addr,
		      const struct sr_group_origin *request, uint64_t later);
/* The value was found in an exposed region.  Called before it is stored there. */
void sr_value_seen(const struct sr_value *v);
/* The value came from outside the group. */
void sr_value_from_outside(const struct sr_value *v);

#endif
