/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write_order.h: of several threads that change the content of one file, which was first?  A
 * recording finds out by letting one of them at a time, from before the real call until the number
 * of its event is drawn.  A replay then changes the file in the order of the events.
 *
 * Only for descriptors that are not captured: what goes to others is compared only, thread by
 * thread.  These are files, terminals and pipes, where the kernel lets one write at a time as well.
 * Where a write blocks for long, or never returns (a handler jumped out of it), the next one goes
 * ahead after a while, so no program stops because of this.
 */
#ifndef SHIM_FILES_WRITE_ORDER_H
#define SHIM_FILES_WRITE_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shim/core/thread.h"

/* Returns what to end; 0 if the order of this write is of no interest. */
uint32_t sr_write_begins(int fd, uint32_t thread);
/* The real call has returned.  Its number may be drawn much later, when the thread has the run token again: others wait for that. */
void sr_write_returned(uint32_t write, uint32_t thread);
void sr_write_ends(uint32_t write, uint32_t thread);

/* In a forked child: no other thread is there that writes. */
void sr_writes_forget(struct sr_thread *t);

/*
 * The recorder is about to read the content of this file: no other thread changes it until
 * sr_files_release().  A thread may hold several files.  Does nothing in a process of one thread.
 */
void sr_file_hold(struct sr_thread *t, dev_t device, ino_t inode);
/* The same without waiting.  False: another thread changes it, or holds it. */
bool sr_file_try_hold(struct sr_thread *t, dev_t device, ino_t inode);
/* Call before a second file is held: one thread at a time holds several. */
void sr_files_hold_many(struct sr_thread *t);
void sr_files_release_held(struct sr_thread *t);

/* Call when the event of the call has been drawn. */
static inline void sr_files_release(struct sr_thread *t)
{
	if (__builtin_expect(t->holds_files, 0))
		sr_files_release_held(t);
}

#endif
