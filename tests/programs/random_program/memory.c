/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c: allocates, maps; the addresses count. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shared.h"

#define BLOCKS 32

static _Thread_local void *blocks[BLOCKS];

static void allocates(struct self *s)
{
	unsigned int i = draw(s, BLOCKS), size = 1 + draw(s, draw(s, 8) ? 2000 : 300000);

	free(blocks[i]);
	blocks[i] = malloc(size);
	memset(blocks[i], (int)i, size);
	mix(s, (uintptr_t)blocks[i]);
}

static void reallocates(struct self *s)
{
	unsigned int i = draw(s, BLOCKS);

	blocks[i] = realloc(blocks[i], 1 + decide(s, 5000));
	mix(s, (uintptr_t)blocks[i]);
}

static void frees(struct self *s)
{
	unsigned int i = draw(s, BLOCKS);

	free(blocks[i]);
	blocks[i] = NULL;
}

static void aligns(struct self *s)
{
	void *p = NULL;

	mix(s, (uint64_t)posix_memalign(&p, 64u << draw(s, 5), 1 + draw(s, 1000)));
	mix(s, (uintptr_t)p);
	free(p);
}

static void maps(struct self *s)
{
	size_t size = 4096u * (1 + draw(s, 20));
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mix(s, (uintptr_t)p);
	p[draw(s, (unsigned int)size)] = 1;
	mprotect(p, 4096, PROT_READ);
	mix(s, (uint64_t)p[0]);
	if (draw(s, 4))
		munmap(p, size);
}

static void computes(struct self *s)
{
	for (unsigned int n = draw(s, 20000); n; n--)
		mix(s, n);
}

const struct step memory_steps[] = {
    {"allocates", allocates, 10},
    {"reallocates", reallocates, 6},
    {"frees", frees, 4},
    {"aligns", aligns, 2},
    {"maps", maps, 3},
    {"computes", computes, 4},
    {0},
};
