/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segments.h: System V shared memory.
 *
 * If the program leaves the address of a segment to the kernel, a recording attaches it in
 * an address range of its own; the trace has the address. A replay uses none of the
 * system's segments. Instead, memory of this process stands for the segment with the
 * recorded id: it is zero at first and lies at the recorded address. All its attachments
 * show the same bytes, and it keeps its content from one attachment to the next.
 *
 * The engines call these functions (calls.def), from any thread.
 */
#ifndef SHIM_PROCESS_SEGMENTS_H
#define SHIM_PROCESS_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "shim/core/codec.h"

/* Memory is about to be unmapped or mapped over (memory/heap.h). */
void sr_segment_ends(void *addr, size_t size);

/* Appends the fields that IPC_SET reads. */
void sr_put_shm_change(struct sr_buf *b, const void *wanted);

#endif
