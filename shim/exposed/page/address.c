/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/address.h"

#include <sys/mman.h>

#include "logd/base/rawsys.h"

#define GIBS ((1ul << 47) / GIB)

_Atomic uint16_t *other_places;
uint32_t other_gibs[OTHERS];
static uint16_t other_gibs_n;

uint32_t shadow_changes[SHADOW_COUNTS];

static bool make_table(void)
{
	void *p;

	if (other_places)
		return true;
	p = sr_sys_mmap(NULL, GIBS * sizeof(*other_places), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sr_sys_is_error(p))
		return false;
	other_places = p;
	return true;
}

/* The caller holds the lock of the exposed regions: nobody else changes the table. */
void address_give_places(uintptr_t begin, uintptr_t end)
{
	uintptr_t first = begin / GIB, last = (end - 1) / GIB;

	if (begin >= end || last >= GIBS || !make_table() || other_gibs_n + (last - first) >= OTHERS)
		return;
	/* A range that has some places has no more room behind them. */
	for (uintptr_t gib = first; gib <= last; gib++)
		if (offset_of(gib * GIB) != NOWHERE)
			return;
	for (uintptr_t gib = first; gib <= last; gib++) {
		other_gibs[other_gibs_n++] = (uint32_t)gib;
		atomic_store_explicit(&other_places[gib], other_gibs_n, memory_order_release);
	}
}
