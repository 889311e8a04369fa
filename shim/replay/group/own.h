/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own.h: what the group's modules inside a replayed process share.
 *
 *   group.c     the calls that matter, and which member depends on which
 *   progress.c  how far members have come, and what each knows of the others
 *   channel.c   messages, and the receives that they meet
 *   history.c   what was written into each member's memory
 *   contents.c  what a process itself puts where its peers may READ it
 *   transfer.c  bytes on their way from member to member: through the file, or a device
 *   requests.c, posts.c, completions.c   queue pairs and their requests (requests.h)
 *   values.c    values compared with what the group produced; the report
 *
 * One thread at a time uses these, with sr_group_lock held.  There are two exceptions:
 * any thread may use progress.c, and sr_value_seen and contents.c need the exposed
 * regions' lock, which is taken behind sr_group_lock.
 */
#ifndef SHIM_REPLAY_GROUP_OWN_H
#define SHIM_REPLAY_GROUP_OWN_H

#include <infiniband/verbs.h>

#include "replay/abi/group.h"
#include "logd/base/lock.h"
#include "shim/core/thread.h"

extern struct sr_group *sr_group_memory;
extern struct sr_replay_control *sr_group_control;
extern uint32_t sr_group_self; /* this process's member */
extern struct sr_lock sr_group_lock;

static inline bool sr_group_over_device(void)
{
	return sr_group_memory->transport == SR_GROUP_RXE;
}

/* The file behind the mapped part.  What cannot be read reads as zeros. */
void sr_group_read(uint64_t at, void *p, size_t n);
void sr_group_write(uint64_t at, const void *p, size_t n);
/* A part of what is written. */
struct sr_piece {
	const void *p;
	uint32_t length;
};
/* One behind the other, at most SR_GROUP_PIECES, by one system call. */
#define SR_GROUP_PIECES 4
void sr_group_write_pieces(uint64_t at, const struct sr_piece *pieces, uint32_t n);
/* The same from memory of the program's, which may be protected: see sr_group_copy. */
void sr_group_write_memory(uint64_t at, const void *p, size_t n);
/*
 * Copies memory of the program's as the program knows it.  Where peers write it, a plain
 * load would fault, and would count as the program's.
 */
void sr_group_copy(void *to, const void *from, size_t n);
/* Pages that lie wholly in the range are given back. */
void sr_group_discard(uint64_t from, uint64_t to);

/* ------------------------------------------------------------ progress.c */

/* The thread has entered this call. */
void sr_progress_enter(uint32_t thread, uint64_t sn);

/* A post begins: a new tick of this process.  The requests follow, then sr_progress_enter. */
struct sr_group_origin sr_progress_post(const struct sr_thread *t);

/* Where the thread is; and, if `knows` is given, what is known of all members. */
struct sr_group_origin sr_progress_now(const struct sr_thread *t, uint64_t *knows);

/* Waits until another thread has entered that call.  This one then knows what it did.  False: the
 * other ended before. */
bool sr_progress_wait(struct sr_thread *t, const struct sr_group_wait *w);

/* Waits until so many messages were posted; false: the sender ended before. */
bool sr_progress_wait_posted(struct sr_thread *t, const struct sr_group_channel *c,
			     uint64_t messages);

/* Waits until is_so(), or until the member cannot make it so: it has ended, or waits for others. */
void sr_progress_until(uint32_t member, bool (*is_so)(void *argument), void *argument);

/* Waits until no member makes calls any more. */
void sr_progress_linger(void);

/* The member's latest call that this process is known to come after; SN 0: none. */
struct sr_group_origin sr_progress_seen(uint32_t member);

/* ------------------------------------------------------------- channel.c */

/* NULL: there are too many. */
struct sr_group_channel *sr_channel(const struct sr_group_key *key);

/* ---------------------------------------------------------------- transfer.c */

/* The request by which bytes go to a member, where they go over a device. */
struct sr_transfer_by {
	struct sr_group_channel *channel;
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t imm_data;
	uint64_t remote_addr; /* of a WRITE */
	uint64_t arrives;     /* of a message: how many have arrived with it */
};

/*
 * Puts these pieces in their place.  Through the file (by: NULL) they are there when this
 * returns.  By a request they are on their way, behind everything that any member asked for
 * before; sr_transfer_failed finds later what could not be done.
 */
void sr_transfer(const struct sr_transfer_by *by, struct sr_group_place to, const struct sr_piece *pieces,
	      uint32_t n);

/* A READ of so many bytes of the peer's memory, an atomic: made for what it does there, not for
 * what it brings, which is in the trace. */
void sr_transfer_read(struct sr_group_channel *c, uint64_t remote_addr, uint32_t length);
struct sr_carried_atomic {
	uint32_t opcode;
	uint64_t remote_addr, compare_add, swap;
	uint64_t result; /* of the recording: the memory holds that then, in any case */
};
void sr_transfer_atomic(struct sr_group_channel *c, const struct sr_carried_atomic *a);

/* The process has put these bytes into its own memory. */
void sr_transfer_own(uint64_t addr, const void *bytes, uint32_t n);

/* Transfers from now on belong to this call. */
void sr_transfer_for(const struct sr_group_call *of);

/* Waits until the message's bytes are there, or will not come. */
void sr_transfer_await(const struct sr_group_channel *c, const struct sr_group_message *m);

/* Waits until all transfers of this process are done; false: one could not be. */
bool sr_transfer_all(void);

/* The call of one that could not be done, and why; NULL: there is none so far. */
const struct sr_group_call *sr_transfer_failed(const char **why);

/* ------------------------------------------------- channel.c: appending to one */

/* Appends a message whose bytes lie in these pieces. */
void sr_channel_send(struct sr_group_channel *c, const struct sr_group_origin *origin,
		     uint32_t opcode, const struct sr_transfer_by *by, const struct sr_piece *pieces,
		     uint32_t n);

/* Message `number`, which was posted. */
void sr_channel_message(const struct sr_group_channel *c, uint64_t number,
			struct sr_group_message *m);
/* n bytes of it from `from` on. */
void sr_channel_bytes(const struct sr_group_channel *c, const struct sr_group_message *m,
		      uint32_t from, void *p, uint32_t n);
/* The receiver needs neither it nor any before it again. */
void sr_channel_release(struct sr_group_channel *c, const struct sr_group_message *m);

/* ------------------------------------------------------------- history.c */

/* These bytes go to `addr` in the member's memory. */
void sr_history_add(uint32_t member, const struct sr_group_origin *origin,
		    enum sr_group_write_kind kind, uint64_t addr, const struct sr_transfer_by *by,
		    const struct sr_piece *pieces, uint32_t n);
/* An atomic operation on 8 bytes begins; its result comes later. */
uint64_t sr_history_add_atomic(uint32_t member, const struct sr_group_origin *origin,
			       uint64_t addr);
/* How many there are so far into this member's own. */
uint64_t sr_history_writes(void);
/* The member's own memory may become anything there. */
void sr_history_add_unseen(const struct sr_group_origin *origin, uint64_t addr, uint32_t n);
void sr_history_resolve(uint32_t member, uint64_t number, uint64_t addr, uint64_t value);
/* ... and it changed nothing. */
void sr_history_void(uint32_t member, uint64_t number, uint64_t addr);

/* ------------------------------------------------------------ contents.c */

/* Once.  false: no memory. */
bool sr_contents_begin(void);
/* The memory begins to be an exposed region: what it holds. */
void sr_contents_region(struct sr_thread *t, uint64_t addr, uint64_t length);
/* What it has asked for may come to there, from now on. */
void sr_contents_expected(struct sr_thread *t, uint64_t addr, uint32_t n);
/* These bytes come to there next, from others. */
void sr_contents_given(uint64_t addr, const void *bytes, uint32_t n);

/* ------------------------------------------------------------ requests.c */

void sr_requests_peer(const struct sr_group_peer *p);
/* Of calls that make, connect, end queue pairs, post, and poll. */
void sr_requests_call(struct sr_thread *t, enum sr_call_number n, const uint64_t *a,
		      uint64_t result);

/* -------------------------------------------------------------- values.c */

/* Bytes that entered at this call of the thread: a value record, or a part of one. */
struct sr_value {
	struct sr_thread *t;
	uint64_t addr;
	const uint8_t *bytes; /* as recorded; may be memory of the program's */
	uint32_t length;
	uint32_t fault; /* at a load behind the call: which of the thread's since then; 0: with the
			   call */
};

/* Other receives, which are outstanding, go to the same memory: */
enum sr_sharing {
	SR_NOT_SHARED,
	SR_SHARED_ALIKE,   /* ... at the same address */
	SR_SHARED_SHIFTED, /* ... at others */
};

/* ... by a message: `from` is where in the message. */
void sr_value_received(const struct sr_value *v, struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from, enum sr_sharing sharing);
/* Is it what the message brought? */
bool sr_value_is_sent(const struct sr_value *v, const struct sr_group_channel *c,
		      const struct sr_group_message *m, uint32_t from);

/* ... by this READ or atomic, of the member's memory. */
void sr_value_fetched(const struct sr_value *v, uint32_t member, uint64_t remote_addr,
		      const struct sr_group_origin *request);
/* ... and were found in memory that peers write; they are not there yet. */
void sr_value_seen(const struct sr_value *v);
/* ... from somebody who is not in the group. */
void sr_value_from_outside(const struct sr_value *v);

#endif
