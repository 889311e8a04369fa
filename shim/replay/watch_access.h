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

/* A page in the table of watch.c. */
struct sr_watched {
	uint64_t address;
	bool is_there; /* registered: the program can access it */
	bool has_copy;
	bool may_close, is_closed, is_open, is_exposed;
	bool is_unseen; /* not each access to it was seen, which was reported */
	uint16_t faults;    /* since the last call */
	uint64_t stored_by; /* the last instruction that stored there since the last call; 0: none is known */
	char *copy;
	uint16_t first, end; /* the watched bytes of the page lie between these */
};

struct sr_watch_access_user {
	/* An access was seen. */
	void (*take)(const struct sr_watch_access *a);
	/* Loads of this page may not be seen, from there on. */
	void (*unseen)(const struct sr_watch_access *from);
	/* The program can store to this page unseen, until the end of its next call. */
	void (*opened)(struct sr_watched *p);
	/* The watched page that has this address; NULL: none. */
	struct sr_watched *(*page_at)(uintptr_t address);
};

/* Before the program runs.  The user stays. */
/* A hook of exposed memory: one instruction with the page open. */
bool sr_watch_step(void *uc, uintptr_t page);

void sr_watch_access_start(const struct sr_watch_access_user *user);

/* A page whose registration has changed: may it be closed while the program runs? */
bool sr_watch_may_close(const struct sr_watched *p);

/* At the end of a call, and where the kernel is to find the page. */
void sr_watch_close(struct sr_watched *p);
void sr_watch_open(struct sr_watched *p);

/* An instruction of the program accesses exposed memory (struct sr_exposed_hooks). */
void sr_watch_accessed(uintptr_t pc, uintptr_t sp, uintptr_t address, size_t length, bool is_store);
/* Not each of its accesses to this page will be seen (the same). */
void sr_watch_unwatched(uintptr_t page);

#endif
