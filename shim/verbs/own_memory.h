/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own_memory.h: recording: finds memory that no device can have written before it becomes an
 * exposed region.
 *
 * The contents of such memory come from the program or from recorded calls.  The replay has the
 * same contents, so the trace need not contain them (struct sr_exposed_hooks).  This does not
 * hold where a device can write, or could once write, at the program's own address, by a
 * registration that is not an exposed region.  Data that arrives there is recorded only when its
 * completion is polled, so the memory may already hold more.  And nobody knows how much a
 * flushed request wrote.  So such a place is never forgotten.
 *
 * Registrations call this in any thread; the system-call trap calls sr_own_memory_moves.
 */
#ifndef SHIM_VERBS_OWN_MEMORY_H
#define SHIM_VERBS_OWN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* The range is about to be registered without becoming an exposed region. */
void sr_own_memory_registered(const void *addr, size_t length);

/* The program moves the memory to another address; a device then writes at that address. */
void sr_own_memory_moves(const void *addr, size_t length);

bool sr_own_memory_is(const void *addr, size_t length);

#endif
