/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap_stub.c: shim/memory/heap.h for unit tests: the shim's arena without an interposed
 * malloc, so that the sanitizers keep theirs.
 */
#include "shim/memory/heap.h"

#include <stdlib.h>
#include <string.h>

#include "shim/memory/arena.h"
#include "shim/core/thread.h"
#include "shim/verbs/checked.h"
#include "shim/verbs/regions.h"

__thread struct sr_thread sr_self;

static struct sr_arena arena;

static struct sr_arena *the_arena(void)
{
	if (!arena.base && sr_arena_init(&arena, SR_SHIM_ARENA, 1ull << 30))
		abort();
	return &arena;
}

bool sr_heap_in_shim_arena(const void *p, size_t size)
{
	return (uintptr_t)p >= the_arena()->base && (uintptr_t)p + size <= arena.usable;
}

bool sr_heap_in_library_arena(const void *p, size_t size)
{
	return sr_heap_in_shim_arena(p, size);
}

void *sr_heap_place_mapping(size_t size)
{
	(void)size;
	return NULL;
}

void *sr_alloc(size_t size)
{
	return sr_arena_alloc(the_arena(), size, 16);
}

void *sr_alloc_zeroed(size_t size)
{
	void *p = sr_alloc(size);

	return p ? memset(p, 0, size) : NULL;
}

void sr_free(void *p)
{
	if (p)
		sr_arena_free(&arena, p);
}

/* shim/verbs/regions.h: unit tests have no regions. */
bool sr_regions_on;
bool sr_threaded;

bool sr_exposed_touches(const void *addr, size_t length)
{
	return false;
}

void sr_exposed_copy(const void *addr, void *to, size_t length)
{
	memcpy(to, addr, length);
}

bool sr_exposed_is_partial(const void *addr)
{
	return false;
}

bool sr_checks_buffers;

void sr_checked_ends(const struct sr_wqe *wqe)
{
}

void sr_exposed_fetch_ends(const void *addr, size_t length)
{
}

bool sr_exposed_keeps_values(const void *addr)
{
	return false;
}

void sr_exposed_keep_values(const void *addr, size_t length)
{
}
