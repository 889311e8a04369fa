/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h: what the replay engine asks of the group: that calls return in the
 * order in which the recorded ranks saw each other, and that what they do to each
 * other is done again and compared.
 *
 * In a process that is replayed alone nothing of this does anything.  All of it
 * runs in the replayed process, in the threads that make the calls.
 */
#ifndef SHIM_REPLAY_GROUP_GROUP_H
#define SHIM_REPLAY_GROUP_GROUP_H

#include "replay/abi/control.h"
#include "shim/core/thread.h"

extern bool sr_group_on;

/* Maps the group's memory, if there is one. */
void sr_group_start(struct sr_replay_control *c);

/* Is this record one for the group?  Then it is kept in `notes`, for the call behind it. */
static inline bool sr_group_is_note(uint16_t kind)
{
	return kind == SR_REC_REPLAY_WAIT || kind == SR_REC_REPLAY_PEER;
}
void sr_group_note(struct sr_buf *notes, uint16_t kind, const void *payload, size_t size);

/* Does it post requests? */
bool sr_group_posts(enum sr_call_number n);

/* The thread's call begins: others may wait for that.  A call that posts says it later. */
void sr_group_enter(struct sr_thread *t, enum sr_call_number n);

/*
 * Before the call returns: until the others are where they were when it did.  Empties
 * the notes.  False: that cannot be, since one of them has ended.
 */
bool sr_group_wait_for_dependencies(struct sr_thread *t, struct sr_buf *notes);

/*
 * The call's results are delivered and its ticket is called: what it posts, and what it completes.
 * What a device is to do again it may do later: `call` says then whose it was.
 */
void sr_group_replayed(struct sr_thread *t, const struct sr_group_call *call, enum sr_call_number n,
		       const uint64_t *a, uint64_t result);

/* What a device did not do again; why is in the control page then.  NULL: all so far. */
const struct sr_group_call *sr_group_not_transferred(void);

/* The process makes no more calls: as above, when the device has done all. */
const struct sr_group_call *sr_group_not_transferred_at_all(void);

/* Memory that peers write begins here. */
void sr_group_region(struct sr_thread *t, uint64_t addr, uint64_t length);

/* What a load found changed there, or a call: before it is put there. */
struct sr_exposed_event;
void sr_group_seen(struct sr_thread *t, const struct sr_exposed_event *e);

/* What the program puts into exposed regions itself: struct sr_exposed_hooks. */
void sr_group_stored(uintptr_t addr, const void *bytes, uint32_t n);
void sr_group_went_pass_through(uintptr_t view, const void *page);
void sr_group_was_pass_through(uintptr_t view, const void *page);

/* The program has ended as recorded.  Until the others have, too. */
void sr_group_linger(void);

#endif
