/* SPDX-License-Identifier: BSD-2-Clause */
/* grow.h: arrays that grow by one element at a time. */
#ifndef REPLAY_ANALYSIS_LOG_GROW_H
#define REPLAY_ANALYSIS_LOG_GROW_H

#include <stddef.h>
#include <stdlib.h>

/* Room for element n of *list, which has room for *room elements of `size` bytes; NULL: no memory. */
static inline void *sr_grow(void **list, size_t n, size_t *room, size_t size)
{
	if (n == *room) {
		size_t more = *room ? 2 * *room : 256;
		void *larger = realloc(*list, more * size);

		if (!larger)
			return NULL;
		*list = larger;
		*room = more;
	}
	return (char *)*list + n * size;
}

#endif
