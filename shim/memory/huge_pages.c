/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/memory/huge_pages.h"

#include "logd/base/rawsys.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"

bool sr_has_huge_pages;

void sr_huge_pages_find(void)
{
	void *p = sr_sys_mmap(NULL, SR_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	sr_has_huge_pages = !sr_sys_is_error(p);
	if (sr_has_huge_pages)
		sr_sys_munmap(p, SR_HUGE_PAGE);
}

/* As MAP_HUGE_2MB says it. */
static size_t page_size(int flags)
{
	const unsigned int shift = (unsigned int)flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;

	return shift ? 1ul << shift : SR_HUGE_PAGE;
}

bool sr_want_ordinary_pages(size_t *size, int *flags)
{
	const size_t page = page_size(*flags);

	if (!(*flags & MAP_HUGETLB) || !(*flags & MAP_ANONYMOUS) || !sr_engine || sr_self.depth)
		return true;
	if (!sr_has_huge_pages)
		return false;
	/* The kernel would round it up as well. */
	*size = (*size + page - 1) & ~(page - 1);
	*flags = sr_without_huge_pages(*flags, MAP_HUGETLB);
	return true;
}
