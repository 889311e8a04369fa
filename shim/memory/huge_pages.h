/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * huge_pages.h: memory for which the program asks in huge pages has ordinary ones.
 *
 * Huge pages cannot be protected page by page, and the machine of a replay may have none.  Where the machine of the recording
 * has none, the program gets none, as without the recorder.  In both runs alike; not for what libraries map within a call, and
 * not for files, which have their pages already.
 */
#ifndef SHIM_MEMORY_HUGE_PAGES_H
#define SHIM_MEMORY_HUGE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "logd/base/compiler.h"

/* The kernel's usual size. */
#define SR_HUGE_PAGE (2ul << 20)

/* Has the machine of the recording some for programs?  Set at the start of both runs. */
extern bool sr_has_huge_pages SR_HIDDEN;
/* Recording: asks the kernel for one. */
void sr_huge_pages_find(void);

/* The flags of a mapping (MAP_HUGETLB) or a segment (SHM_HUGETLB) without that one, and without the size of the pages. */
static inline int sr_without_huge_pages(int flags, int huge)
{
	return (int)((unsigned int)flags & ~((unsigned int)huge | (unsigned int)MAP_HUGE_MASK << MAP_HUGE_SHIFT));
}

/* The size and the flags of a mapping of the program.  False: there are no huge pages, and it fails with ENOMEM. */
bool sr_want_ordinary_pages(size_t *size, int *flags);

#endif
