/* SPDX-License-Identifier: BSD-2-Clause */
/* room.h: arrays of the shim's that grow, such that are made when they are needed, and large ones. */
#ifndef SHIM_MEMORY_ROOM_H
#define SHIM_MEMORY_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"

/*
 * Makes room for so many elements of that size in *list, which sr_alloc() made, or which is NULL with no *room: at least twice
 * what there was.  New elements are zero.  False: no memory, and nothing has changed.
 */
static inline bool sr_make_room(void *list, uint32_t *room, uint32_t needed, size_t size)
{
	uint32_t more = *room ? 2 * *room : 8;
	void *old, *larger;

	if (needed <= *room)
		return true;
	more = more < needed ? needed : more;
	larger = sr_alloc_zeroed(more * size);
	if (!larger)
		return false;
	/* list is the address of a pointer of another type. */
	memcpy(&old, list, sizeof(old));
	if (*room)
		memcpy(larger, old, *room * size);
	sr_free(old);
	memcpy(list, &larger, sizeof(larger));
	*room = more;
	return true;
}

/* Memory that whichever thread needs it first allocates; zero.  NULL: there is none. */
static inline void *sr_alloc_once(void *_Atomic *once, size_t size)
{
	void *p = atomic_load_explicit(once, memory_order_acquire), *none = NULL;

	if (p)
		return p;
	p = sr_alloc_zeroed(size);
	if (!p || atomic_compare_exchange_strong(once, &none, p))
		return p;
	sr_free(p);
	return none;
}

/* A mapping of zeros, which takes no memory until it is written.  NULL: there is none. */
static inline void *sr_map_zeroed(size_t size)
{
	void *p = sr_sys_mmap(sr_heap_place_mapping(size), size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sr_sys_is_error(p) ? NULL : p;
}

#endif
