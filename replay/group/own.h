/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own.h: what the group's modules inside a replayed process share.
 *
 *   group.c     the calls that matter, and who has to do with them
 *   progress.c  how far members have come, and what is known of whom
 *   channel.c   messages, and the receives that they meet
 *   history.c   what was written into whose memory
 *   requests.c  queue pairs, and which request a completion is of
 *   values.c    values compared with what the group produced; the report
 *
 * All but progress.c is used by one thread at a time: with sr_group_lock held.
 */
#ifndef REPLAY_GROUP_OWN_H
#define REPLAY_GROUP_OWN_H

#include <infiniband/verbs.h>

#include "replay/group/shared.h"
#include "shim/lock.h"
#include "shim/thread.h"

extern struct sr_group *sr_group_memory;
extern struct sr_replay_control *sr_group_control;
extern uint32_t sr_group_self; /* this process's member */
extern struct sr_lock sr_group_lock;

/* The file behind the mapped part.  What cannot be read reads as zeros. */
void sr_group_read(uint64_t at, void *p, size_t n);
void sr_group_write(uint64_t at, const void *p, size_t n);
/* Pages that lie wholly in the range are given back. */
void sr_group_discard(uint64_t from, uint64_t to);

/* ------------------------------------------------------------ progress.c */

/* The thread has entered this call. */
void sr_progress_enter(uint32_t thread, uint64_t sn);

/* A post begins: a new tick of this process.  Then what it does; then sr_progress_enter. */
uint64_t sr_progress_post(uint32_t thread, uint64_t sn);

/* Until it has entered that call; this thread, in call `sn`, knows then what it did.  False: it
 * has ended without. */
bool sr_progress_wait(struct sr_thread *t, const struct sr_group_wait *w);

/* Until so many messages were posted; false: the sender has ended without. */
bool sr_progress_wait_posted(struct sr_thread *t, const struct sr_group_channel *c,
			     uint64_t messages);

/* Until it is so, or the member cannot make it so: it has ended, or waits for others. */
void sr_progress_until(uint32_t member, bool (*is_so)(void *argument), void *argument);

/* Until nobody makes calls any more. */
void sr_progress_linger(void);

/* Is what this origin did known to have begun before where this process is now? */
bool sr_progress_knows(const struct sr_group_origin *o);

/* The member's latest call that this process is known to come after; SN 0: none. */
struct sr_group_origin sr_progress_seen(uint32_t member);

/* ------------------------------------------------------------- channel.c */

/* NULL: there are too many. */
struct sr_group_channel *sr_channel(const struct sr_group_key *key);

/* Appends a message whose bytes lie in these pieces. */
struct sr_piece {
	const void *p;
	uint32_t length;
};
void sr_channel_send(struct sr_group_channel *c, const struct sr_group_origin *origin,
		     uint32_t opcode, const struct sr_piece *pieces, uint32_t n);

/* Message `number`, which was posted. */
void sr_channel_message(const struct sr_group_channel *c, uint64_t number,
			struct sr_group_message *m);
/* n bytes of it from `from` on. */
void sr_channel_bytes(const struct sr_group_channel *c, const struct sr_group_message *m,
		      uint32_t from, void *p, uint32_t n);
/* The receiver needs neither it nor any before it again. */
void sr_channel_release(struct sr_group_channel *c, const struct sr_group_message *m);

/* ------------------------------------------------------------- history.c */

/* These bytes go to `addr` in the member's memory; returns the number of the (first) entry. */
uint64_t sr_history_add(uint32_t member, const struct sr_group_origin *origin, uint64_t addr,
			const struct sr_piece *pieces, uint32_t n);
/* An atomic operation on 8 bytes begins; its result comes later. */
uint64_t sr_history_add_atomic(uint32_t member, const struct sr_group_origin *origin,
			       uint64_t addr);
void sr_history_resolve(uint32_t member, uint64_t number, uint64_t addr, uint64_t value);

/*
 * Who wrote these bytes, which were at `addr` in the member's memory and are no more
 * than SR_HISTORY_PIECE: of each, the place of its origin in `origins`, or -1.  Of those
 * that are known to have begun, and of this process's own before tick `before`, the
 * last that fits.  Returns how many origins there are.
 */
#define SR_HISTORY_PIECE   4096
#define SR_HISTORY_ORIGINS 64
uint32_t sr_history_match(uint32_t member, uint64_t addr, const uint8_t *bytes, uint32_t n,
			  uint64_t before, int8_t *who, struct sr_group_origin *origins);

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
	const uint8_t *bytes; /* as recorded */
	uint32_t length;
};

/* ... by a message: `from` is where in the message. */
void sr_value_received(const struct sr_value *v, struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from, bool shared);
/* ... by a READ or an atomic of the member's memory, posted at this tick. */
void sr_value_fetched(const struct sr_value *v, uint32_t member, uint64_t remote_addr,
		      uint64_t tick);
/* ... from somebody who is not in the group. */
void sr_value_from_outside(const struct sr_value *v);

#endif
