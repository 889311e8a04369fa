/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch_access.h: the loads and stores of a watched replay (watch.h), one by one.
 *
 * Accesses to exposed memory fault anyway, or are made to by hooks.accessed (shim/exposed).  Other watched pages are
 * protected while the program runs between its calls: a fault there reports the access and does it.  That protection
 * is its own: the numbers of faults of exposed memory stay as they were recorded.
 */
#ifndef SHIM_REPLAY_WATCH_ACCESS_H
#define SHIM_REPLAY_WATCH_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/watch.h"

struct sr_watch_access_user {
	/* An access was seen. */
	void (*take)(const struct sr_watch_access *a);
	/* Accesses to this page may not be seen, from there on. */
	void (*unseen)(const struct sr_watch_access *from);
};

/* Before the program runs.  The user stays. */
void sr_watch_access_start(const struct sr_watch_access_user *user);

/* A hook of exposed memory: one instruction with the page open. */
bool sr_watch_step(void *uc, uintptr_t page);

/* An instruction of the program accesses exposed memory (struct sr_exposed_hooks). */
void sr_watch_accessed(uintptr_t pc, uintptr_t sp, uintptr_t address, size_t length, bool is_store);
/* Not each access to this page will be seen (the same); within a call, the call's are not. */
void sr_watch_unwatched(uintptr_t page);

#endif
