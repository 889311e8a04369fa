/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/large.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "replay/analysis/log/prefault.h"
#include "replay/analysis/log/spill.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

/* Where nothing else is, each behind the one before it.  The kernel takes another place if there is something. */
#define FIXED_PLACE (UINT64_C(1) << 44) /* of arrays that do not grow */
#define FIRST_PLACE (UINT64_C(1) << 45)
#define LAST_PLACE  (UINT64_C(1) << 46)
#define PLACE       (UINT64_C(1) << 37)

/* With a limit an array grows by so much at most, and a part of what it has. */
#define STEP_MOST (UINT64_C(16) << 20)
#define STEP_SHARE 16

static bool is_mapped(size_t room, size_t size)
{
	return room * size >= SR_LARGE;
}

static size_t mapped(size_t room, size_t size)
{
	return (room * size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

static void *next_place(uint64_t first, uint64_t end, uint64_t *taken)
{
	return (void *)(first + __atomic_fetch_add(taken, PLACE, __ATOMIC_RELAXED) % (end - first));
}

static void *growing_place(void)
{
	static uint64_t taken;

	return next_place(FIRST_PLACE, LAST_PLACE, &taken);
}

static void *fixed_place(void)
{
	static uint64_t taken;

	return next_place(FIXED_PLACE, FIRST_PLACE, &taken);
}

/* Does memory have a limit? */
static bool is_limited;

void sr_large_limit(size_t bytes)
{
	is_limited = true;
	/* A part is for what is no array. */
	sr_spill_limit(bytes / 4 * 3);
}

/* at: where it is to be; is_fixed: nowhere else. */
static void *map(void *at, size_t bytes, bool is_fixed)
{
	void *made = mmap(at, bytes, is_limited ? PROT_NONE : PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | (is_fixed ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	if (made == MAP_FAILED)
		return NULL;
	madvise(made, bytes, MADV_HUGEPAGE);
	if (is_limited && !sr_spill_add(made, bytes)) {
		munmap(made, bytes);
		return NULL;
	}
	sr_prefault(made, bytes);
	return made;
}

static void unmap(void *at, size_t bytes)
{
	if (is_limited)
		sr_spill_remove(at, bytes);
	munmap(at, bytes);
}

void *sr_large_make(size_t n, size_t size)
{
	return is_mapped(n, size) ? map(fixed_place(), mapped(n, size), false) : malloc(n * size + 1);
}

void *sr_large_zeroed(size_t n, size_t size)
{
	return is_mapped(n, size) ? sr_large_make(n, size) : calloc(n + 1, size);
}

void sr_large_free(void *list, size_t room, size_t size)
{
	if (list && is_mapped(room, size))
		unmap(list, mapped(room, size));
	else
		free(list);
}

/* A mapping that grows.  NULL: no memory. */
static void *enlarge_mapped(void *list, size_t bytes, size_t more)
{
	void *larger;

	if (map((char *)list + bytes, more - bytes, true))
		return list;
	larger = map(growing_place(), more, false);
	if (!larger)
		return NULL;
	memcpy(larger, list, bytes);
	unmap(list, bytes);
	return larger;
}

/* To a mapping, or to a larger one, for which there is room behind it as a rule. */
static void *enlarge(void *list, size_t room, size_t more, size_t size)
{
	void *larger;

	if (is_mapped(room, size))
		return mapped(room, size) == mapped(more, size) ? list : enlarge_mapped(list, mapped(room, size), mapped(more, size));
	larger = map(growing_place(), mapped(more, size), false);
	if (!larger || !list)
		return larger;
	memcpy(larger, list, room * size);
	free(list);
	return larger;
}

/* What is mapped can grow by less at a time: nothing is copied. */
static size_t next_room(size_t room, size_t size)
{
	/* Few mappings are enough, however large it is. */
	const size_t step = room / 4, step_most = STEP_MOST / size + room / STEP_SHARE;

	if (!room)
		return 256;
	if (!is_mapped(room, size))
		return 2 * room;
	return room + (is_limited && step > step_most ? step_most : step);
}

void *sr_large_grow(void **list, size_t n, size_t *room, size_t size)
{
	if (n == *room) {
		const size_t more = next_room(*room, size);
		void *larger = is_mapped(more, size) ? enlarge(*list, *room, more, size) : realloc(*list, more * size);

		if (!larger)
			return NULL;
		*list = larger;
		*room = more;
	}
	return (char *)*list + n * size;
}
