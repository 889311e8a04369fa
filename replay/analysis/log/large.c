/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/large.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "replay/analysis/log/spill.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

/* Where nothing else is, each behind the one before it.  The kernel takes another place if there is something. */
#define FIXED_PLACE (UINT64_C(1) << 44) /* of arrays that do not grow */
#define FIRST_PLACE (UINT64_C(1) << 45)
#define LAST_PLACE  (UINT64_C(1) << 46)
#define PLACE       (UINT64_C(1) << 37)

/* With a limit an array grows by so much at most. */
#define STEP_MOST (UINT64_C(4) << 20)

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

/* What all arrays may have in memory, and have; the rest is in a file. */
static size_t most = SIZE_MAX, used;

void sr_large_limit(size_t bytes)
{
	/* A part is for what the file's pages are mapped to, and some for what is no array. */
	most = bytes / 8 * 5;
	sr_spill_limit(bytes / 4);
}

static bool take(size_t bytes)
{
	if (__atomic_add_fetch(&used, bytes, __ATOMIC_RELAXED) <= most)
		return true;
	__atomic_sub_fetch(&used, bytes, __ATOMIC_RELAXED);
	return false;
}

static void give_back(size_t bytes)
{
	__atomic_sub_fetch(&used, bytes, __ATOMIC_RELAXED);
}

/* In memory, even if that is more than it is to be: without a file there is no other place. */
static void *map_memory(void *at, size_t bytes)
{
	at = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_HUGEPAGE);
	return at;
}

/* at: where it can grow, if nothing is there; NULL: it will not. */
static void *map(void *at, size_t bytes)
{
	void *made;

	if (!take(bytes)) {
		made = sr_spill_map(at, bytes);
		if (made)
			return made;
		__atomic_add_fetch(&used, bytes, __ATOMIC_RELAXED);
	}
	made = map_memory(at ? at : fixed_place(), bytes);
	if (!made)
		give_back(bytes);
	return made;
}

static void unmap(void *at, size_t bytes)
{
	const size_t in_file = sr_spill_forget(at, bytes);

	munmap(at, bytes);
	give_back(bytes - in_file);
}

void *sr_large_make(size_t n, size_t size)
{
	return is_mapped(n, size) ? map(NULL, mapped(n, size)) : malloc(n * size + 1);
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

/* A mapping that grows, in memory or by a part in the file.  NULL: no memory. */
static void *enlarge_mapped(void *list, size_t bytes, size_t more)
{
	void *larger;

	if (!sr_spill_has(list, bytes) && take(more - bytes)) {
		larger = mremap(list, bytes, more, MREMAP_MAYMOVE);
		if (larger != MAP_FAILED)
			return larger;
		give_back(more - bytes);
		return NULL;
	}
	if (sr_spill_map((char *)list + bytes, more - bytes))
		return list;
	larger = map(growing_place(), more);
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
	larger = map(growing_place(), mapped(more, size));
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
	const size_t step = room / 4, step_most = STEP_MOST / size + room / 256;

	if (!room)
		return 256;
	if (!is_mapped(room, size))
		return 2 * room;
	return room + (most != SIZE_MAX && step > step_most ? step_most : step);
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
