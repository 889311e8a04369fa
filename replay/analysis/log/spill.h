/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spill.h: large arrays (large.h) of which no more than so much is in memory: the parts that were touched longest ago lie in a file.
 *
 * Chunks of 2 MiB come and go as a whole, by a handler of SIGSEGV: a page fault for each 4 KiB of a mapped file takes twenty times as
 * long.  The file has no name, lies in $TMPDIR or else in /var/tmp, and is written when there is more than the limit.  Where there
 * is no such file, or no space, all stays in memory.  Any thread may call, and touch what is there; a system call must not
 * (EFAULT).  What a forked child touches it reads from the file, which it does not write.
 */
#ifndef REPLAY_ANALYSIS_LOG_SPILL_H
#define REPLAY_ANALYSIS_LOG_SPILL_H

#include <stdbool.h>
#include <stddef.h>

#define SR_SPILL_CHUNK (2u << 20)

/* Of all together so many bytes may be in memory. */
void sr_spill_limit(size_t bytes);

/* A mapping of zeroes, without access (PROT_NONE), can be touched from now on.  bytes: of whole chunks.  false: no memory. */
bool sr_spill_add(void *at, size_t bytes);
/* A mapping is unmapped now: all that was added within these bytes. */
void sr_spill_remove(void *at, size_t bytes);
/* Is some of it in the file? */
bool sr_spill_has(const void *at, size_t bytes);

#endif
