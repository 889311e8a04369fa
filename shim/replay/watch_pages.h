/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch_pages.h: the pages that a watched replay watches: which of them the program may store to unseen, and what it has
 * stored there.
 *
 * A page that is not exposed is closed while the program runs: a process with one thread can neither load nor store
 * there without a fault, one with threads can load.  (The C library's locks may lie there, and the kernel must find
 * them.)  This protection is the watch's own: numbers of faults of exposed memory stay as they were recorded.
 *
 * Pages that can be stored to unseen are in a list: those of the list are compared with their copies at each call, and
 * no others.  Exposed pages get there when they are stored to, when they are passed through, and when a call accesses
 * them.
 *
 * All functions but sr_watch_page_at() are called with the lock.
 */
#ifndef SHIM_REPLAY_WATCH_PAGES_H
#define SHIM_REPLAY_WATCH_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/watch.h"

/* A fault costs as much as so many comparisons of a page. */
#define SR_WATCH_PATIENCE 64

struct sr_watched {
	uint64_t address;
	bool is_there; /* registered: the program can access it */
	bool has_copy, has_older;
	bool may_close, is_closed, is_listed, is_exposed;
	bool is_unseen; /* not each access to it was seen, which was reported */
	uint8_t patience, unchanged; /* with threads: after how many calls without a change it is closed; and how many there were */
	uint16_t faults;    /* since the last call */
	uint64_t stored_by; /* the last instruction that stored there since the last call; 0: none is known */
	char *copy;
	char *older; /* what peers have changed as it was before, with has_older */
	uint16_t first, end; /* the watched bytes of the page lie between these */
};

void sr_watch_lock(void);
void sr_watch_unlock(void);

/* Memory for a watched replay, zeros, before the program runs; NULL: there is none. */
void *sr_watch_map(size_t bytes);

/* Before the program runs.  The ranges stay.  False: there is no memory. */
bool sr_watch_pages_start(const struct sr_watch_range *ranges, uint64_t n);

/* The watched page that has this address; NULL: none. */
struct sr_watched *sr_watch_page_at(uintptr_t address);
/* Does a watched range have some of these bytes? */
bool sr_watch_has(uint64_t begin, uint64_t end);

/* Where the page's bytes can be read. */
const char *sr_watch_bytes(const struct sr_watched *p);

/* The program can store to this page unseen, until the end of its next call at least. */
void sr_watch_list(struct sr_watched *p);
bool sr_watch_any_listed(void);

/* Memory may have been registered, or no longer be. */
void sr_watch_find_pages(void);
/* This memory is mapped no more. */
void sr_watch_forget_pages(uint64_t begin, uint64_t end);

/* The program may access the page. */
void sr_watch_open(struct sr_watched *p);
/* All pages: the kernel is to find them. */
void sr_watch_open_all(void);
/* Closes a page again that was opened for one access. */
void sr_watch_close(struct sr_watched *p);
/* What a call has put into the pages of the list is no store of the program's; then they are closed. */
void sr_watch_close_all(void);

/* Of each page of the list: hands over what has changed. */
void sr_watch_compare(void (*changed)(const struct sr_watched *p, size_t begin, size_t end, void *argument), void *argument);

#endif
