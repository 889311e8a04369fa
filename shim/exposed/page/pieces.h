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

/* Before a region gets a part of the page.  False: no memory. */
bool pieces_make(struct page *p);
/* What of the range lies in the page is a region's more; or, with a last look, one's less. */
void pieces_add(uintptr_t user, uintptr_t addr, size_t length);
void pieces_remove(uintptr_t user, uintptr_t addr, size_t length);
/* Can they be one's: is each of them some region's? */
bool pieces_have(uintptr_t user, uintptr_t addr, size_t length);
/* Does no region have any of these bytes, that are all in the page? */
bool is_unregistered(const struct page *p, uintptr_t addr, size_t n) NO_VECTORS;
/* Of what is about to be learned, the bytes that no region has: the shadow is given them. */
void pieces_pass_over(uintptr_t addr, const char *now, size_t length);

/* It is no exposed region's any more. */
void page_forget(struct page *p);

#endif
