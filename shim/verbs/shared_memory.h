/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_memory.h: memory that processes share.  Other processes store there behind this one's
 * back, as a NIC does, so it is exposed memory from its mapping to its unmapping
 * (docs/user/exposed-memory.md).
 *
 * The others are called by the system-call trap, in the thread that made the mapping.
 */
#ifndef SHIM_VERBS_SHARED_MEMORY_H
#define SHIM_VERBS_SHARED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Before the program's first mapping.  Memory that has no name is shared with children only, so it is
 * exposed from the first fork on.  In a child that is recorded, all of it is exposed anew.
 */
void sr_shared_start(void);

/* mmap has returned, with these arguments.  True: it is memory that processes share. */
bool sr_shared_mapped(void *addr, const uint64_t a[6], void *site);

/* mprotect takes these whole pages from the program, as guards for example: what is shared from the first fork on lacks them. */
void sr_shared_protected(void *addr, size_t size);

/* shmat has returned; the segment is read-only with SHM_RDONLY in the flags. */
void sr_shared_attached(void *addr, size_t size, int id, int flags, void *site);

/* Before a segment is removed: does this process have it for itself from then on? */
bool sr_shared_is_own(int id);
/* It was removed, and is no exposed memory any more if it is its own. */
void sr_shared_removed(bool own, int id, void *site);

#endif
