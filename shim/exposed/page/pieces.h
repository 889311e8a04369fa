/* SPDX-License-Identifier: BSD-2-Clause */
/* pieces.h: of a page that regions have only parts of, which bytes these are. */
#ifndef SHIM_EXPOSED_PAGE_PIECES_H
#define SHIM_EXPOSED_PAGE_PIECES_H

#include "shim/exposed/page/page.h"

/* What of a range lies in the page. */
struct page_part {
	size_t begin, end;
};

struct page_part part_in_page(uintptr_t user, uintptr_t addr, size_t length);

/* Call it before a region gets a part of the page.  False: no memory. */
bool pieces_make(struct page *p);
/* A region begins, or ceases, to have what of the range lies in the page. */
void pieces_add(uintptr_t user, uintptr_t addr, size_t length);
void pieces_remove(uintptr_t user, uintptr_t addr, size_t length);
/* Does some region have each of these bytes? */
bool pieces_have(uintptr_t user, uintptr_t addr, size_t length);
/* Does no region have any of these bytes?  They are all in the page. */
bool is_in_no_region(const struct page *p, uintptr_t addr, size_t n) NO_VECTORS;
/* And has the page a shadow copy, so that nothing need be recorded of them? */
bool is_unregistered(const struct page *p, uintptr_t addr, size_t n) NO_VECTORS;
/* Copies the bytes that no region has to the shadow copy, so that they are not recorded. */
void pieces_pass_over(uintptr_t addr, const char *now, size_t length);

/* Calls f() for each run of bytes that regions have, of a page that none has whole. */
void pieces_each(uintptr_t user, void (*f)(uintptr_t addr, size_t length));

/* The page is not exposed any more. */
void page_forget(struct page *p);

#endif
