/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spill.h: memory in a file without a name, for arrays that are too large to be kept (large.h).
 *
 * The file lies in $TMPDIR or else in /var/tmp, and needs as much space there.  The kernel writes and reads it as it needs memory;
 * a thread of its own takes pages away that are mapped beyond a limit: they come back when they are touched.  Any thread may call.
 */
#ifndef REPLAY_ANALYSIS_LOG_SPILL_H
#define REPLAY_ANALYSIS_LOG_SPILL_H

#include <stdbool.h>
#include <stddef.h>

/* Pages of the file beyond so many bytes are unmapped, within a few ms. */
void sr_spill_limit(size_t resident);

/* Zeroes; at: where, NULL: anywhere.  NULL: there is something else, no file can be made, or its disk is full. */
void *sr_spill_map(void *at, size_t bytes);
/* What will be unmapped now: how much of it is in the file, which gets smaller by that. */
size_t sr_spill_forget(void *at, size_t bytes);
/* Is some of it in the file? */
bool sr_spill_has(const void *at, size_t bytes);

#endif
