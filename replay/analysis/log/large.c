/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/large.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE (UINT64_C(2) << 20)

/* Where nothing else is, each behind the one before it.  The kernel takes another place if there is something. */
#define FIRST_PLACE (UINT64_C(1) << 45)
#define LAST_PLACE  (UINT64_C(1) << 46)
#define PLACE       (UINT64_C(1) << 37)

static bool is_mapped(size_t room, size_t size)
{
	return room * size >= SR_LARGE;
}

static size_t mapped(size_t room, size_t size)
{
	return (room * size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

static void *next_place(void)
{
	static uint64_t taken;

	return (void *)(FIRST_PLACE + __atomic_fetch_add(&taken, PLACE, __ATOMIC_RELAXED) % (LAST_PLACE - FIRST_PLACE));
}

void *sr_large_make(size_t n, size_t size)
{
	void *at;

	if (!is_mapped(n, size))
		return malloc(n * size + 1);
	at = mmap(next_place(), mapped(n, size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, mapped(n, size), MADV_HUGEPAGE);
	return at;
}

void *sr_large_zeroed(size_t n, size_t size)
{
	return is_mapped(n, size) ? sr_large_make(n, size) : calloc(n + 1, size);
}

void sr_large_free(void *list, size_t room, size_t size)
{
	if (list && is_mapped(room, size))
		munmap(list, mapped(room, size));
	else
		free(list);
}

/* To a mapping, or to a larger one, for which there is room behind it as a rule. */
static void *enlarge(void *list, size_t room, size_t more, size_t size)
{
	void *larger;

	if (is_mapped(room, size)) {
		larger = mremap(list, mapped(room, size), mapped(more, size), MREMAP_MAYMOVE);
		return larger == MAP_FAILED ? NULL : larger;
	}
	larger = sr_large_make(more, size);
	if (!larger || !list)
		return larger;
	memcpy(larger, list, room * size);
	free(list);
	return larger;
}

void *sr_large_grow(void **list, size_t n, size_t *room, size_t size)
{
	if (n == *room) {
		/* What is mapped can grow by less at a time: nothing is copied. */
		const size_t more = !*room ? 256 : is_mapped(*room, size) ? *room + *room / 4 : 2 * *room;
		void *larger = is_mapped(more, size) ? enlarge(*list, *room, more, size) : realloc(*list, more * size);

		if (!larger)
			return NULL;
		*list = larger;
		*room = more;
	}
	return (char *)*list + n * size;
}
