/* SPDX-License-Identifier: BSD-2-Clause */
/* arena.h: a small allocator in a range of fixed addresses; see heap.h. */
#ifndef SHIM_MEMORY_ARENA_H
#define SHIM_MEMORY_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/lock.h"

#define SR_ARENA_CLASSES 48

struct sr_arena {
	uintptr_t base;
	uintptr_t end;    /* of the range that the arena may grow into */
	uintptr_t next;   /* first byte that was never allocated */
	uintptr_t usable; /* end of the mapped part */
	void *free[SR_ARENA_CLASSES];
	struct sr_lock lock;
};

/* bytes must be a multiple of 2 MiB. -EEXIST if something else is mapped at base. */
int sr_arena_init(struct sr_arena *arena, uintptr_t base, size_t bytes);

/* Maps the arena up to the end of these bytes, so that recorded content can be written there. */
int sr_arena_reach(struct sr_arena *arena, const void *p, size_t size);

/* NULL when the range is full; align must be a power of two. */
void *sr_arena_alloc(struct sr_arena *arena, size_t size, size_t align);
void sr_arena_free(struct sr_arena *arena, void *p);
size_t sr_arena_block_size(const void *p);

static inline bool sr_arena_owns(const struct sr_arena *arena, const void *p)
{
	return (uintptr_t)p - arena->base < arena->end - arena->base;
}

#endif
