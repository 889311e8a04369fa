/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h: where the backing mapping and the shadow copy of an address lie. */
#ifndef SHIM_EXPOSED_PAGE_ADDRESS_H
#define SHIM_EXPOSED_PAGE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/page.h"
#include "shim/exposed/x86/vector.h"

#define PAGE_MASK (~(PAGE - 1))

/*
 * Where programs have memory, and where its the backing mapping and shadow lie.  Distances
 * are fixed, so that what is contiguous for the program is contiguous for the
 * NIC, whatever regions overlap.
 */
#define BACKING_BASE 0x6c0000000000ul
/*
 * Some pages off: a translation buffer finds an entry by an address's lowest page bits, and
 * the two pages that are always compared with each other would take turns in one.  (An
 * emulated machine's has one entry for each: there a comparison took ten times as long.)
 */
#define SHADOW_BASE  0x740000015000ul

/* What threads stand on on their way to a site's handler (sites.c). */
#define PROBE_STACKS_BASE 0x7d0000000000ul

/* The files of the program's code, once more (code.c). */
#define TEXTS_BASE 0x7d8000000000ul

struct zone {
	uintptr_t begin, end, offset;
};

static const struct zone zones[] = {
    {0x000000000000ul, 0x010000000000ul, 0x000000000000ul}, /* without PIE; Go's heap */
    {0x550000000000ul, 0x580000000000ul, 0x010000000000ul}, /* PIE and brk */
    {0x7e0000000000ul, 0x800000000000ul, 0x040000000000ul}, /* mappings */
    {0x6a0000000000ul, 0x6c0000000000ul, 0x060000000000ul}, /* those that heap.c places */
};

#define ZONES_BYTES 0x080000000000ul
#define NOWHERE     UINTPTR_MAX

NO_VECTORS static inline uintptr_t offset_of(uintptr_t addr)
{
	for (size_t i = 0; i < sizeof(zones) / sizeof(*zones); i++)
		if (addr - zones[i].begin < zones[i].end - zones[i].begin)
			return addr - zones[i].begin + zones[i].offset;
	return NOWHERE;
}

/* What offset_of() has made of it. */
static inline uintptr_t address_at(uintptr_t offset)
{
	for (size_t i = 0; i < sizeof(zones) / sizeof(*zones); i++)
		if (offset - zones[i].offset < zones[i].end - zones[i].begin)
			return offset - zones[i].offset + zones[i].begin;
	return NOWHERE;
}

NO_VECTORS static inline char *shadow_of(uintptr_t addr)
{
	return (char *)(SHADOW_BASE + offset_of(addr));
}

/* Does none of these bytes lie in the next page? */
NO_VECTORS static inline bool is_in_one_page(uintptr_t addr, size_t n)
{
	return ((addr ^ (addr + n - 1)) & PAGE_MASK) == 0;
}

#endif
