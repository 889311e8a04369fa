/* SPDX-License-Identifier: BSD-2-Clause */
/* page.h: an exposed page, and the table of all of them. */
#ifndef SHIM_EXPOSED_PAGE_PAGE_H
#define SHIM_EXPOSED_PAGE_PAGE_H

#include <stdatomic.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "shim/exposed/page/address.h"
#include "shim/exposed/page/events.h"

/* How many pages one thread may have open, and all threads together.  Each snapshot is compared after each sample. */
#define OPEN_MAX  64
#define OPEN_ALL  (4 * OPEN_MAX)

enum page_state {
	PAGE_NONE, /* not part of an exposed region */
	PAGE_PROTECTED,
	PAGE_SNAPSHOT,
	PAGE_PASS_THROUGH,
	/*
	 * Another thread protected the page.  Its owner does not notice: the next access takes a new snapshot, or
	 * passes through again.
	 */
	PAGE_SUSPENDED,
	PAGE_SUSPENDED_PASS_THROUGH,
};

struct pieces;

struct page {
	uint8_t state;
	bool shadow_valid; /* the shadow copy has what the program knows */
	bool async;        /* protected by the tick: the next value is asynchronous */
	bool silent;       /* opened within a call: nothing is recorded */
	bool atomics;      /* the program changes words here atomically: never passed through for many stores */
	bool meets;        /* other processes store here by their CPUs: as above, and see is_partial() */
	/*
	 * The last region that had a part of it was removed, and all that was brought there was sampled.  It is still
	 * exposed where another thread's call uses the backing mapping, and is returned when it is next accessed.
	 */
	bool left_behind;
	bool apart;        /* the program is shown a copy of it: see apart.h */
	bool stack;        /* given up since the program had a stack there: see stack.c */
	bool hidden;       /* a snapshot that faults all the same: its loads are watched (hooks.accessed) ... */
	uint8_t watched;   /* ... and so many were */
	bool by_value;     /* others than peers by WRITEs may bring something there: sr_exposed_keep_values() */
	bool own;          /* not only WRITEs of peers have changed it: stores of the program, READs, or messages */
	uint16_t fetches;  /* so many READs of the process may bring something there: sr_exposed_fetch_begins() */
	bool digested;     /* `digest` is of what was there before any device could write */
	uint8_t pins;      /* passed through for calls that use it, and not in open_pages */
	uint8_t fills;     /* so often it was filled, with nothing else in between (fill.c) */
	uint8_t fill_run;  /* ... as the first of so many pages */
	bool loaded;       /* ... and since then, loads were done here */
	bool reread;       /* that was so once, before the page was filled again */
	uint64_t fill_epoch; /* the last of these epochs */
	bool fetched;      /* READs of the process were to bring something there ... */
	bool by_peers;     /* something was found there that they did not bring */
	uint64_t fetched_epoch; /* ... which was found in this epoch */
	uint32_t loads;    /* done by the handler since the page was protected: what they cost (access.h) */
	uint32_t found;    /* ... so many found something new; also since the call before */
	uint32_t repeats;  /* ... of those, loads that a loop came back to and that found nothing new */
	uint32_t users;    /* regions that have any of it */
	uint32_t whole;    /* ... that have all of it */
	uint32_t aliases;  /* calls under way that were given the backing mapping: it must stay where it is */
	uint32_t owner;    /* the thread that opened it */
	uint64_t epoch;    /* to which `loads` belongs */
	uint32_t poll_pauses; /* how long a poll of this page waits, in pause instructions */
	uintptr_t poll_at; /* the last load that the handler did: its address ... */
	uintptr_t poll_pc; /* ... and that of its instruction */
	uint64_t digest;
	struct pieces *pieces; /* pieces.c.  NULL if no region ever had only a part of it */
};

/* Where the NIC writes.  A page that is passed through is mapped at the program's address. */
NO_VECTORS static inline char *backing_of(const struct page *p, uintptr_t addr)
{
	return p->state == PAGE_PASS_THROUGH ? (char *)addr : (char *)(BACKING_BASE + offset_of(addr));
}

/* Once.  -errno. */
int page_table_init(void);

/* A page's entry.  NULL if no exposed region was ever within so many bytes. */
#define CHUNK_BYTES (1ul << 30)

extern struct page *_Atomic *page_chunks;

NO_VECTORS static inline struct page *page_at(uintptr_t addr)
{
	struct page *chunk;

	if (addr >> 47 || !page_chunks)
		return NULL;
	chunk = atomic_load_explicit(&page_chunks[addr / CHUNK_BYTES], memory_order_acquire);
	return chunk ? &chunk[addr % CHUNK_BYTES / PAGE] : NULL;
}

NO_VECTORS static inline bool page_is_exposed(uintptr_t addr)
{
	const struct page *p = page_at(addr);

	return p && p->state != PAGE_NONE;
}

/* The next page; or, where the table has no entries, the first page behind the gap. */
static inline uintptr_t next_page(uintptr_t at)
{
	return page_at(at) ? at + PAGE : (at & ~(CHUNK_BYTES - 1)) + CHUNK_BYTES;
}

/* Makes the table reach the range.  -ENOMEM. */
int page_table_reach(uintptr_t begin, uintptr_t end);

/* Calls what() for runs of exposed pages, in any order; a long one comes in parts. */
void page_table_walk(void (*what)(uintptr_t begin, uintptr_t end));

/* The addresses of open pages, in the order of their opening. */
extern uintptr_t open_pages[OPEN_ALL];
extern uint32_t open_n, pass_through_n;
extern _Atomic uint32_t anything_open;
extern struct sr_exposed_counts counts;
extern struct sr_exposed_hooks hooks;
extern uint32_t holds; /* while it is not 0, no page is passed through */

/* A suspended snapshot is one, too: its owner goes on with it. */
static inline bool is_snapshot(const struct page *p)
{
	return p->state == PAGE_SNAPSHOT || p->state == PAGE_SUSPENDED;
}

NO_VECTORS static inline bool is_suspended(const struct page *p)
{
	return p->state == PAGE_SUSPENDED || p->state == PAGE_SUSPENDED_PASS_THROUGH;
}

/* Does such an access fault?  Without the lock the answer may be out of date. */
NO_VECTORS static inline bool fault_needs_handling(const struct page *p, bool write)
{
	return p->state == PAGE_PROTECTED || is_suspended(p) || (p->state == PAGE_SNAPSHOT && write);
}

#endif
