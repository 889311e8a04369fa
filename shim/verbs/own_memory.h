/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_memory.h: recording: memory that no device can have written, when it becomes an exposed region.
 *
 * What is there the program itself has put there, or calls have whose results are recorded,
 * so that a replay has the same and need not be given it (struct sr_exposed_hooks).  It is not
 * so where a device can write at the program's own address, or could once: by a
 * registration that is no exposed region.  What arrives there is recorded when its completion is polled,
 * so that more may be there; and of a request that was flushed nobody knows how far it
 * had come, so such a place is never forgotten.
 *
 * Called by registrations in any thread, and by the system-call trap (sr_own_memory_moves).
 */
#ifndef SHIM_VERBS_OWN_MEMORY_H
#define SHIM_VERBS_OWN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* A device is about to be given the range, and it is no exposed region. */
void sr_own_memory_registered(const void *addr, size_t length);

/* The program moves what is there to another address: a device's writes go with it. */
void sr_own_memory_moves(const void *addr, size_t length);

bool sr_own_memory_is(const void *addr, size_t length);

#endif
