/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segments.h: System V shared memory.
 *
 * Where the program leaves the address of a segment to the kernel, a recording attaches it at
 * an address in a range of its own; the trace has the address.  A replay uses no segment of the
 * system's.  Instead, memory of this process stands for the segment of the recorded number: zeros
 * at first, at the recorded address.  All its attachments show the same bytes, and it lasts from
 * one attachment to the next.
 *
 * Called by the engines (calls.def), from any thread.
 */
#ifndef SHIM_PROCESS_SEGMENTS_H
#define SHIM_PROCESS_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "shim/core/codec.h"

/* Memory is about to be unmapped or mapped over (memory/heap.h). */
void sr_segment_ends(void *addr, size_t size);

/* How much a command of shmctl writes; 0: nothing. */
size_t sr_shmctl_answer_size(int command);

/* The fields that IPC_SET reads. */
void sr_put_shm_change(struct sr_buf *b, const void *wanted);

#endif
