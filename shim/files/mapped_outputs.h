/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapped_outputs.h: what the program stores into a mapped file leaves the process, as what it writes does.  It is compared
 * when the program synchronises or unmaps it, and at the process's end.
 *
 * The recording looks at the pages that the process has touched, piece by piece; each piece is a call mapped_output of its
 * own (calls.def), which names its place.  A replay compares the same pieces.  Memory that processes share is not compared:
 * others store there, too.
 *
 * Called in the program's threads, outside of sections.
 */
#ifndef SHIM_FILES_MAPPED_OUTPUTS_H
#define SHIM_FILES_MAPPED_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A piece: where it lies, how long it is and, in a recording, a copy, as the memory may vanish.  Of length 0: there is more
 * that is not compared.
 */
enum { SR_PIECE_ADDR, SR_PIECE_LENGTH, SR_PIECE_COPY, SR_PIECE_WORDS };

/* Before the program's first mapping. */
void sr_mapped_outputs_start(void);

/* A file was mapped MAP_SHARED by a descriptor by which it may be written.  stores: so may the mapping. */
void sr_mapped_output_begins(void *addr, size_t size, bool stores);
/* mprotect lets the program store there. */
void sr_mapped_output_stores(void *addr, size_t size);

/* msync: little is compared at once, much when it ends. */
void sr_mapped_output_synced(void *addr, size_t size, void *site);
/* Around an mremap: what it takes away is compared, and the rest is at its new place. */
void sr_mapped_output_moves(void *addr, size_t size, size_t new_size, void *site);
void sr_mapped_output_moved(void *addr, void *to, size_t new_size);

/* The process ends, or executes another program. */
void sr_mapped_outputs_compare(void *site);
/* A child will share all of them. */
void sr_mapped_outputs_shared(void);
/* In a forked child, where no other thread holds the lock. */
void sr_mapped_outputs_in_child(void);

#endif
