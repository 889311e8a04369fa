/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h: the replay engine's interface to the group.  Calls return in the order in which the
 * recorded ranks saw each other; their effects on other ranks are repeated and compared.
 *
 * These functions run in the replayed process, in the threads that make the calls.  They do
 * nothing in a process that is replayed alone.
 */
#ifndef SHIM_REPLAY_GROUP_GROUP_H
#define SHIM_REPLAY_GROUP_GROUP_H

#include <infiniband/verbs.h>

#include "replay/abi/control.h"
#include "shim/core/thread.h"

extern bool sr_group_on;

/*
 * Maps the group's memory, if there is one.  A process that goes on as a child is that child in the group: it joins when it
 * has made its last fork.  What it does before, its parents do as members of their own.
 */
void sr_group_start(struct sr_replay_control *c);
void sr_group_join(void);

/* Is this a record for the group?  Then sr_group_note keeps it for the next call. */
static inline bool sr_group_is_note(uint16_t kind)
{
	return kind == SR_REC_REPLAY_WAIT || kind == SR_REC_REPLAY_PEER;
}
void sr_group_note(struct sr_buf *notes, uint16_t kind, const void *payload, size_t size);

/* Does this call post requests? */
bool sr_group_posts(enum sr_call_number n);

/*
 * The thread's call begins; other members may wait for that.  A call that posts is announced
 * later, by sr_group_replayed.
 */
void sr_group_enter(struct sr_thread *t, enum sr_call_number n);

/* Behind this call, the thread comes to its stop number `stop`, until others have gone on: a PLACE, or sr_run_token_is_stop. */
void sr_group_stop(uint32_t thread, uint64_t sn, uint64_t stop);

/*
 * Waits, before the call returns, for the calls of other ranks that it depends on: the first DUE bytes of the notes.  Takes these
 * out.  Returns false if one of these ranks has ended without making its call.
 */
bool sr_group_wait_for_dependencies(struct sr_thread *t, struct sr_buf *notes, size_t due);

/* The rank of this process; -1: it is replayed alone. */
int32_t sr_group_rank(void);

/* Of a rank whose trace ends early, because of which a wait was in vain; -1: there is none. */
int32_t sr_group_early_end(void);

/*
 * Applies what the call posts and completes to the group.  Called with the call's ticket, after
 * its results were delivered.  A device may repeat the requests later; `call` identifies the
 * call if that fails.
 */
void sr_group_replayed(struct sr_thread *t, const struct sr_group_call *call, enum sr_call_number n,
		       const uint64_t *a, uint64_t result);

/*
 * The call that a device failed to repeat; the control page has the reason.  NULL: none so far.
 */
const struct sr_group_call *sr_group_not_transferred(void);

/* The process makes no more calls: the same, after the device has finished all work items. */
const struct sr_group_call *sr_group_not_transferred_at_all(void);

/*
 * Puts what the record lacks into the n completions of a poll, and into the pieces of t->received: the next requests of that
 * queue have completed.  Returns false if it has none.
 */
bool sr_group_fill_pick(struct sr_thread *t, const struct sr_replay_pick *pick, struct ibv_context *context, struct ibv_wc *wc,
			int n);

/* An exposed region was added. */
void sr_group_region(struct sr_thread *t, uint64_t addr, uint64_t length);

/* A load or a call found changes in an exposed region.  Called before they are stored there. */
struct sr_exposed_event;
void sr_group_seen(struct sr_thread *t, const struct sr_exposed_event *e);

/* From now on the kernel may bring bytes there, which no rank has written. */
void sr_group_expects(const void *addr, size_t length);

/* A call is about to be made: libc may store into what is a lock of the program's. */
void sr_group_uses_locks(struct sr_thread *t, const struct sr_call_desc *d, const uint64_t *a);

/* The program's own stores into exposed regions; see struct sr_exposed_hooks. */
void sr_group_stored(uintptr_t addr, const void *bytes, uint32_t n);
void sr_group_went_pass_through(uintptr_t view, const void *page);
void sr_group_was_pass_through(uintptr_t view, const void *page);

/* The program has ended as recorded: waits until the other members have, too. */
void sr_group_linger(void);

#endif
