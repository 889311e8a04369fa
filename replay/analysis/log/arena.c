/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/arena.h"

#include <stdint.h>

#include "replay/analysis/log/large.h"

/* Of a block that is as large, or larger, no cache line is shared. */
#define LINE 64

#define LEAST_BLOCK 16u
#define LEAST_CHUNK (32u << 10)
#define CHUNK_MOST  (8u << 20)

struct sr_arena_chunk {
	struct sr_arena_chunk *next;
	size_t bytes;
};

struct sr_arena_spare {
	struct sr_arena_spare *next;
};

/* The power of two that has this size. */
static unsigned int power_of(size_t bytes)
{
	return bytes <= LEAST_BLOCK ? 4 : 64 - (unsigned int)__builtin_clzll(bytes - 1);
}

/* As many bytes as there are already, up to what is given in huge pages. */
static int add_chunk(struct sr_arena *a, size_t block)
{
	size_t bytes = a->total < LEAST_CHUNK ? LEAST_CHUNK : a->total < CHUNK_MOST ? a->total : CHUNK_MOST;
	struct sr_arena_chunk *c;
	uintptr_t at;

	if (bytes < block + 2 * LINE)
		bytes = block + 2 * LINE;
	c = sr_large_make(bytes, 1);
	if (!c)
		return -1;
	*c = (struct sr_arena_chunk){a->chunks, bytes};
	a->chunks = c;
	a->total += bytes;
	at = ((uintptr_t)(c + 1) + LINE - 1) & ~(uintptr_t)(LINE - 1);
	a->at = (char *)at;
	a->left = (uintptr_t)c + bytes - at;
	return 0;
}

void *sr_arena_get(struct sr_arena *a, size_t bytes)
{
	const unsigned int power = power_of(bytes);
	const size_t size = (size_t)1 << power;
	struct sr_arena_spare *spare = a->spare[power];
	char *block;

	if (spare) {
		a->spare[power] = spare->next;
		return spare;
	}
	if (size >= LINE) {
		const size_t gap = -(uintptr_t)a->at & (LINE - 1);

		a->at += gap < a->left ? gap : a->left;
		a->left -= gap < a->left ? gap : a->left;
	}
	if (a->left < size && add_chunk(a, size))
		return NULL;
	block = a->at;
	a->at += size;
	a->left -= size;
	return block;
}

void sr_arena_put(struct sr_arena *a, void *block, size_t bytes)
{
	const unsigned int power = power_of(bytes);
	struct sr_arena_spare *spare = block;

	if (!spare)
		return;
	spare->next = a->spare[power];
	a->spare[power] = spare;
}

void sr_arena_free(struct sr_arena *a)
{
	struct sr_arena_chunk *next;

	for (struct sr_arena_chunk *c = a->chunks; c; c = next) {
		next = c->next;
		sr_large_free(c, c->bytes, 1);
	}
	*a = (struct sr_arena){0};
}
