/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segments.h: System V shared memory.
 *
 * A recording gives each segment that the program attaches, and leaves the place of
 * to the kernel, an address in a range of its own, and keeps that in the trace.  A replay
 * makes, finds and touches no segment of the system's: one of the recorded number
 * is memory of this process alone, zeros at first, that lies where the recorded one
 * did; all its attachments show the same bytes, as they did, and it lasts from one
 * to the next.
 *
 * Called by the engines (calls.def), from any thread.
 */
#ifndef SHIM_PROCESS_SEGMENTS_H
#define SHIM_PROCESS_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "shim/core/codec.h"

/* What lay there is about to be unmapped, or mapped over. */
void sr_segment_ends(void *addr, size_t size);

/* How much a command of shmctl writes; 0: nothing. */
size_t sr_shmctl_answer_size(int command);

/* What IPC_SET looks at. */
void sr_put_shm_change(struct sr_buf *b, const void *wanted);

#endif
