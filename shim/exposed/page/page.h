/* SPDX-License-Identifier: BSD-2-Clause */
/* page.h: an exposed page, and the table of all of them. */
#ifndef SHIM_EXPOSED_PAGE_PAGE_H
#define SHIM_EXPOSED_PAGE_PAGE_H

#include <stdatomic.h>
#include <string.h>

#include "logd/base/compiler.h"
#include "shim/exposed/page/address.h"
#include "shim/exposed/page/events.h"

/* Open at a time, frozen or live, by one thread: each is compared after each look at memory. */
#define OPEN_MAX  64
#define OPEN_ALL  (4 * OPEN_MAX)

enum page_state {
	PAGE_NONE, /* not a exposed region's */
	PAGE_PROTECTED,
	PAGE_SNAPSHOT,
	PAGE_PASS_THROUGH,
	/*
	 * Closed by another thread's doing than its owner's, who goes on as if it were not,
	 * with a new snapshot, or makes it live again.
	 */
	PAGE_SUSPENDED,
	PAGE_SUSPENDED_PASS_THROUGH,
};

struct pieces;

struct page {
	uint8_t state;
	bool shadow_valid;        /* the shadow is what the program knows */
	bool async;        /* closed by the tick: what is found next may be late */
	bool silent;       /* live within a call: nobody learns what is there */
	bool digested;     /* was `digest` before any device could write there */
	uint8_t pins;      /* live for the kernel, and not among the open pages */
	uint8_t loads;     /* done one by one since the page was closed */
	uint16_t repeats;  /* ... that a loop has come back to, with nothing new */
	uint32_t users;    /* regions */
	uint32_t whole;    /* ... that have all of it */
	uint32_t aliases;  /* calls under way that were given the backing mapping: it must stay where it is */
	uint32_t owner;    /* who opened it */
	uint64_t epoch;    /* that `loads` is of */
	uint32_t poll_pauses; /* how long a poll of this page waits, in pauses */
	uintptr_t poll_at; /* the last load done by itself: its address ... */
	uintptr_t poll_pc; /* ... and that of its instruction */
	uint64_t digest;
	struct pieces *pieces; /* pieces.c.  NULL: no region has had only a part of it */
};

/* The bytes as the NIC has them: a live page is at its view. */
NO_VECTORS static inline char *backing_of(const struct page *p, uintptr_t addr)
{
	return p->state == PAGE_PASS_THROUGH ? (char *)addr : (char *)(BACKING_BASE + offset_of(addr));
}

/* Once.  -errno. */
int page_table_init(void);

/* NULL if no exposed region was ever near: within so many bytes. */
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

/* The next page; or the next of which the table could have something to say. */
static inline uintptr_t next_page(uintptr_t at)
{
	return page_at(at) ? at + PAGE : (at & ~(CHUNK_BYTES - 1)) + CHUNK_BYTES;
}

/* Makes the table reach the range.  -ENOMEM. */
int page_table_reach(uintptr_t begin, uintptr_t end);

/* Calls what for each run of exposed pages. */
void page_table_walk(void (*what)(uintptr_t begin, uintptr_t end));

/* The open pages' addresses. */
extern uintptr_t open_pages[OPEN_ALL];
extern uint32_t open_n, pass_through_n;
extern _Atomic uint32_t anything_open;
extern struct sr_exposed_counts counts;
extern struct sr_exposed_hooks hooks;
extern uint32_t holds; /* no page goes live */

/* ... or was one, and its owner goes on with it. */
static inline bool is_snapshot(const struct page *p)
{
	return p->state == PAGE_SNAPSHOT || p->state == PAGE_SUSPENDED;
}

NO_VECTORS static inline bool is_suspended(const struct page *p)
{
	return p->state == PAGE_SUSPENDED || p->state == PAGE_SUSPENDED_PASS_THROUGH;
}

/* Does such an access fault?  (Unless another thread changes it.) */
NO_VECTORS static inline bool fault_needs_handling(const struct page *p, bool write)
{
	return p->state == PAGE_PROTECTED || is_suspended(p) || (p->state == PAGE_SNAPSHOT && write);
}

#endif
