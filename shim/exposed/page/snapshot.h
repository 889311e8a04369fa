/* SPDX-License-Identifier: BSD-2-Clause */
/* snapshot.h: copies of memory that others write meanwhile, and what differs from the shadow copy. */
#ifndef SHIM_EXPOSED_PAGE_SNAPSHOT_H
#define SHIM_EXPOSED_PAGE_SNAPSHOT_H

#include "shim/exposed/page/thread.h"

extern bool has_wide_words; /* the processor has AVX2 */

/* Is the backing mapping equal to these bytes?  Each of its bytes is read once, since it may change meanwhile. */
bool is_equal(const char *known, const char *backing, size_t n);

/* What a copy of a page is. */
enum copy {
	COPY_TORN,  /* the page changed during each try */
	COPY_WHOLE, /* as the page was at one moment */
	COPY_STILL, /* and no request was landing in it then */
};

/* Copies a page of the backing mapping. */
enum copy snapshot(uintptr_t user, char to[PAGE]);

/* Puts what differs from the shadow copy into the event, and into the shadow copy. */
void record_difference(uintptr_t addr, const char *now, size_t length, uint32_t flags);
/* The same of the whole page, which snapshot() has copied. */
void record_snapshot(uintptr_t user, const char now[PAGE], enum copy copy, uint32_t flags);

/* The same of a whole page, as it is at one moment, if it ever holds still. */
void record_page(uintptr_t user, uint32_t flags);

/* The first access to a page: its whole shadow copy becomes valid. */
void validate_shadow(uintptr_t user, struct page *p);

/*
 * A page is registered for the first time.  What is there, the program has put there itself, or was given by calls that are
 * recorded.  A later sample that finds the same bytes records nothing.
 */
void note_digest(uintptr_t user);
/* The same of one that nobody has stored to, without a look at it. */
void note_digest_of_zeros(struct page *p);

/* A store makes the page differ from its digest, so the two are compared before. */
void validate_shadow_before_store(uintptr_t addr);

#endif
