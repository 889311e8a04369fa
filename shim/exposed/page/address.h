/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h: where the backing mapping and the shadow copy of an address lie. */
#ifndef SHIM_EXPOSED_PAGE_ADDRESS_H
#define SHIM_EXPOSED_PAGE_ADDRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/page.h"
#include "shim/exposed/x86/vector.h"

#define PAGE_MASK (~(PAGE - 1))

/*
 * Programs have memory in these zones.  The backing mapping and the shadow copy of an address lie at fixed distances,
 * so that a range that is contiguous for the program is contiguous for the NIC, whatever regions overlap.
 */
#define BACKING_BASE 0x6c0000000000ul
/*
 * Not a multiple of a large power of two away: a translation buffer finds its entries by the lowest bits of a page
 * number, and the two mappings are compared with each other all the time.  (On an emulated machine with one entry for
 * each value of these bits a comparison took ten times as long.)
 */
#define SHADOW_BASE  0x740000015000ul

/* Stacks of threads on their way from a probe to the handler (probe/entry.c). */
#define PROBE_STACKS_BASE 0x7d0000000000ul

/* The table of probes (probe/table.c). */
#define PROBES_BASE 0x7c4000000000ul

/* What one fault brings (page/event.c). */
#define EVENT_BASE 0x7c8000000000ul

/* What other processes announce (page/announced.h). */
#define ANNOUNCED_BASE 0x7cc000000000ul

/* A second mapping of the program's files (probe/code.c). */
#define TEXTS_BASE 0x7d8000000000ul

struct zone {
	uintptr_t begin, end, offset;
};

static const struct zone zones[] = {
    {0x000000000000ul, 0x010000000000ul, 0x000000000000ul}, /* without PIE; Go's heap */
    {0x550000000000ul, 0x570000000000ul, 0x010000000000ul}, /* PIE and brk */
    {0x7e0000000000ul, 0x800000000000ul, 0x040000000000ul}, /* mappings */
    {0x6a0000000000ul, 0x6c0000000000ul, 0x060000000000ul}, /* mappings that shim/memory/heap.c places */
};

/*
 * Some programs choose addresses elsewhere (MPICH maps its windows at random ones, the same in all ranks): each GiB
 * in which there is such a region gets one of so many places.
 */
#define OTHERS_OFFSET 0x030000000000ul
#define OTHERS        1024
#define GIB           (1ul << 30)

/* By address / GIB: 1 + its place; 0: none.  The reverse: what is there, in GiB. */
extern _Atomic uint16_t *other_places;
extern uint32_t other_gibs[OTHERS];

/* Gives [begin, end) places, in a row, if it is in no zone and there is room. */
void address_give_places(uintptr_t begin, uintptr_t end);

#define ZONES_BYTES 0x080000000000ul
#define NOWHERE     UINTPTR_MAX

NO_VECTORS static inline uintptr_t offset_of(uintptr_t addr)
{
	uint16_t place;

	for (size_t i = 0; i < sizeof(zones) / sizeof(*zones); i++)
		if (addr - zones[i].begin < zones[i].end - zones[i].begin)
			return addr - zones[i].begin + zones[i].offset;
	place = addr >> 47 || !other_places ? 0 : atomic_load_explicit(&other_places[addr / GIB], memory_order_acquire);
	return place ? OTHERS_OFFSET + (place - 1ul) * GIB + addr % GIB : NOWHERE;
}

/* The reverse of offset_of(). */
static inline uintptr_t address_at(uintptr_t offset)
{
	for (size_t i = 0; i < sizeof(zones) / sizeof(*zones); i++)
		if (offset - zones[i].offset < zones[i].end - zones[i].begin)
			return offset - zones[i].offset + zones[i].begin;
	if (offset - OTHERS_OFFSET < OTHERS * GIB && other_gibs[(offset - OTHERS_OFFSET) / GIB])
		return other_gibs[(offset - OTHERS_OFFSET) / GIB] * GIB + offset % GIB;
	return NOWHERE;
}

NO_VECTORS static inline char *shadow_of(uintptr_t addr)
{
	return (char *)(SHADOW_BASE + offset_of(addr));
}

/*
 * How often shadow copies were changed, by the number of the page, modulo so many.  Who has computed something of shadow
 * copies knows by the sum over their pages whether it still holds.
 */
#define SHADOW_COUNTS 1024

extern uint32_t shadow_changes[SHADOW_COUNTS];

/* Bytes within one page are about to be written there. */
NO_VECTORS static inline char *shadow_to_change(uintptr_t addr)
{
	shadow_changes[addr / PAGE % SHADOW_COUNTS]++;
	return shadow_of(addr);
}

/* Of a range that is gone through page by page: where what lies in the page of `at` ends. */
static inline uintptr_t end_of_piece(uintptr_t at, uintptr_t end)
{
	uintptr_t next = (at & PAGE_MASK) + PAGE;

	return next < end ? next : end;
}

/* Are all of these bytes in one page? */
NO_VECTORS static inline bool is_in_one_page(uintptr_t addr, size_t n)
{
	return ((addr ^ (addr + n - 1)) & PAGE_MASK) == 0;
}

#endif
