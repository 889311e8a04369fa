/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/memory/arena.h"

#include <errno.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"

/*
 * Header before each block; 16 bytes, so that blocks keep malloc's alignment. In a block
 * with a larger alignment the header lies directly before the caller's pointer, and start
 * is where the block really begins.
 */
struct head {
	uint32_t class;
	uint32_t size; /* usable bytes from the caller's pointer, in units of 16 */
	uintptr_t start;
};

_Static_assert(sizeof(struct head) == 16, "blocks keep malloc's alignment");

#define MIN_CLASS 5            /* 32 bytes: a header and 16 more */
#define STEP      (2ull << 20) /* the range is mapped in steps of this size */

/*
 * Maps the next step. The arena reserves nothing ahead because address space counts towards
 * mlockall and RLIMIT_AS even if it is not accessible.
 */
static int add_step(struct sr_arena *arena)
{
	void *p = sr_sys_mmap((void *)arena->usable, STEP, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (sr_sys_is_error(p))
		return (int)(intptr_t)p;
	if ((uintptr_t)p != arena->usable) { /* Linux before 4.17 treats the address as a hint */
		sr_sys_munmap(p, STEP);
		return -EEXIST;
	}
	arena->usable += STEP;
	return 0;
}

int sr_arena_init(struct sr_arena *arena, uintptr_t base, size_t bytes)
{
	arena->base = arena->next = arena->usable = base;
	arena->end = base + bytes;
	return add_step(arena);
}

/* The caller holds the lock, unless no other thread can allocate. */
static int make_usable(struct sr_arena *arena, uintptr_t end)
{
	int err = end > arena->end ? -ENOMEM : 0;

	while (!err && end > arena->usable)
		err = add_step(arena);
	return err;
}

int sr_arena_reach(struct sr_arena *arena, const void *p, size_t size)
{
	int err;

	if (!sr_arena_owns(arena, p) || size > arena->end - (uintptr_t)p)
		return -EFAULT;
	sr_lock(&arena->lock);
	err = make_usable(arena, (uintptr_t)p + size);
	sr_unlock(&arena->lock);
	return err;
}

static uint32_t class_of(size_t bytes)
{
	uint32_t class = MIN_CLASS;

	while ((1ull << class) < bytes)
		class ++;
	return class;
}

/* Returns a block of the class, or 0. The caller holds the lock. */
static uintptr_t take_block(struct sr_arena *arena, uint32_t class)
{
	uintptr_t block = (uintptr_t)arena->free[class];

	if (block) {
		arena->free[class] = *(void **)block;
		return block;
	}
	if (make_usable(arena, arena->next + (1ull << class)))
		return 0;
	block = arena->next;
	arena->next += 1ull << class;
	return block;
}

void *sr_arena_alloc(struct sr_arena *arena, size_t size, size_t align)
{
	size_t slack = align > 16 ? align : 0;
	struct head *head;
	uintptr_t block, p;
	uint32_t class;

	if (size > arena->end - arena->base || align > arena->end - arena->base)
		return NULL;
	class = class_of(size + slack + sizeof(*head));
	if (class >= SR_ARENA_CLASSES)
		return NULL;
	sr_lock(&arena->lock);
	block = take_block(arena, class);
	sr_unlock(&arena->lock);
	if (!block)
		return NULL;
	p = block + sizeof(*head);
	if (slack)
		p = (p + align - 1) & ~(align - 1);
	head = (struct head *)p - 1;
	head->class = class;
	head->start = block;
	head->size = (uint32_t)((block + (1ull << class) - p) / 16);
	return (void *)p;
}

void sr_arena_free(struct sr_arena *arena, void *p)
{
	struct head *head = (struct head *)p - 1;
	void **block = (void **)head->start;
	uint32_t class = head->class;

	sr_lock(&arena->lock);
	*block = arena->free[class];
	arena->free[class] = block;
	sr_unlock(&arena->lock);
}

size_t sr_arena_block_size(const void *p)
{
	return ((const struct head *)p - 1)->size * 16ull;
}
