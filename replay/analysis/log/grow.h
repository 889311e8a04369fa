/* SPDX-License-Identifier: BSD-2-Clause */
/* grow.h: arrays that grow by one element at a time. */
#ifndef REPLAY_ANALYSIS_LOG_GROW_H
#define REPLAY_ANALYSIS_LOG_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* What is larger is given in huge pages, where the kernel has some: a quarter of the time was for faults. */
#define SR_GROW_HUGE (8u << 20)

/*
 * Memory from malloc() or realloc() is about to be filled.  (If the kernel does not do it nothing is lost.)  All of its mapping
 * is advised: of one that is in two parts realloc() makes a copy.
 */
static inline void sr_grow_advise(void *p, size_t bytes)
{
	const uintptr_t page = 4096, begin = (uintptr_t)p & ~(page - 1), end = ((uintptr_t)p + bytes + page - 1) & ~(page - 1);

	madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

/* Room for element n of *list, which has room for *room elements of `size` bytes; NULL: no memory. */
static inline void *sr_grow(void **list, size_t n, size_t *room, size_t size)
{
	if (n == *room) {
		size_t more = *room ? 2 * *room : 256;
		void *larger = realloc(*list, more * size);

		if (!larger)
			return NULL;
		if (more * size >= SR_GROW_HUGE)
			sr_grow_advise(larger, more * size);
		*list = larger;
		*room = more;
	}
	return (char *)*list + n * size;
}

#endif
