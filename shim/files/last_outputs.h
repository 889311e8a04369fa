/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * last_outputs.h: what a recorded process has written is in its trace, up to its last byte.
 *
 * A thread that exits, or executes another program, ends the other threads wherever they are: also
 * between a write and its record.  So it closes a gate first.  Writes that have passed it are
 * waited for until they are recorded; later ones wait at the gate for the end, or until the exec
 * has failed.  Requests that the kernel is handed to write something (io_submit) are writes, too.
 *
 * Recording only, in a process that has threads.
 */
#ifndef SHIM_FILES_LAST_OUTPUTS_H
#define SHIM_FILES_LAST_OUTPUTS_H

#include <stdbool.h>

struct sr_thread;

/* Around a call that writes, from before the real call until its record is in the ring. */
void sr_output_begins(struct sr_thread *t);
void sr_output_ends(struct sr_thread *t);

/* No other thread begins to write from here on. */
void sr_outputs_close(struct sr_thread *t);
/* True if other threads have to wait at the gate. */
bool sr_outputs_are_closed(void);
/*
 * Waits for those that have begun before; 300 ms at most, because a write to a full pipe may take
 * forever.
 */
void sr_outputs_await(struct sr_thread *t);

/* The process goes on.  Does nothing if this thread has not closed the gate. */
void sr_outputs_open(void);

/* In a forked child: the parent's threads write nothing here. */
void sr_outputs_forget(struct sr_thread *t);

#endif
