/* SPDX-License-Identifier: BSD-2-Clause */
/* program_maps.c: where the mappings lie that the program makes without an address (heap.h). */
#include <sys/mman.h>

#include "logd/base/page.h"
#include "shim/memory/heap.h"
#include "shim/memory/heap_order.h"
#include "shim/memory/huge_pages.h"
#include "shim/core/thread.h"

/*
 * Without this, the place of the program's mappings would depend on the kernel and on what
 * the verbs libraries have mapped, and a replay maps nothing for them.
 */
static struct program_range {
	_Atomic uintptr_t next;
	uintptr_t end;
} program_maps = {SR_PROGRAM_MAPS, SR_SEGMENTS}, large_maps = {SR_LARGE_MAPS, SR_LARGE_MAPS_END};

/* 0: there is no room.  A page behind each mapping stays free.  Aligned, so that the kernel can use huge pages. */
static uintptr_t place_in(struct program_range *range, size_t size)
{
	uintptr_t from = atomic_load(&range->next), begin;

	do {
		begin = size < SR_HUGE_PAGE ? from : (from + SR_HUGE_PAGE - 1) & ~(SR_HUGE_PAGE - 1);
		if (begin > range->end || size > range->end - begin - SR_HUGE_PAGE)
			return 0;
	} while (!atomic_compare_exchange_weak(&range->next, &from, begin + sr_page_up(size) + PAGE));
	return begin;
}

void *sr_heap_place_program(size_t size, int flags)
{
	uintptr_t placed;
	bool begun;

	if (!sr_engine || sr_self.depth || flags & (MAP_32BIT | MAP_FIXED) || !size)
		return NULL;
	/* Threads get their addresses in the order of their heap operations. */
	begun = sr_heap_begin();
	placed = place_in(size < SR_LARGE_MAPPING ? &program_maps : &large_maps, size);
	sr_heap_end(begun);
	return (void *)placed;
}

bool sr_heap_is_placed_program(uintptr_t addr)
{
	return addr - SR_PROGRAM_MAPS < program_maps.next - SR_PROGRAM_MAPS;
}

bool sr_heap_grow_program(uintptr_t end, size_t more)
{
	const bool begun = sr_heap_begin();
	uintptr_t behind = end + PAGE;
	bool grows = more < program_maps.end - end - SR_HUGE_PAGE &&
		     atomic_compare_exchange_strong(&program_maps.next, &behind, behind + sr_page_up(more));

	sr_heap_end(begun);
	return grows;
}
