/* SPDX-License-Identifier: BSD-2-Clause */
/* arena.h: memory in many small blocks, which is given back all at once.  All zeroed: an empty one. */
#ifndef REPLAY_ANALYSIS_LOG_ARENA_H
#define REPLAY_ANALYSIS_LOG_ARENA_H

#include <stddef.h>

#define SR_ARENA_SIZES 32

struct sr_arena_chunk;
struct sr_arena_spare;

struct sr_arena {
	struct sr_arena_chunk *chunks;
	char *at;
	size_t left, total;
	struct sr_arena_spare *spare[SR_ARENA_SIZES]; /* blocks that were put back, by size */
};

/* Blocks are powers of two, what is asked for is rounded up.  Not set; NULL: no memory. */
void *sr_arena_get(struct sr_arena *a, size_t bytes);
/* The same number of bytes: another one may get the block. */
void sr_arena_put(struct sr_arena *a, void *block, size_t bytes);
void sr_arena_free(struct sr_arena *a);

#endif
