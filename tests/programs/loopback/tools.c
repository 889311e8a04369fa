/* SPDX-License-Identifier: BSD-2-Clause */
/* tools.c: numbers by chance, buffers, checksums. */
#include "loopback/loopback.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

uint64_t random_state;

struct world w;

uint32_t chance(uint32_t below)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) % below;
}

bool one_in(uint32_t n)
{
	return chance(n) == 0;
}

/* Is this feature wanted, and is it its turn? */
bool feature(char letter, uint32_t n)
{
	bool yes = one_in(n);

	return yes && (!w.features || strchr(w.features, letter));
}

void fill(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)chance(256);
}

uint64_t sum(uint64_t h, const void *p, size_t n)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ c[i]) * 0x100000001b3ull;
	return h;
}

/* Cuts `length` bytes from `base` into at most MAX_SGE pieces, with gaps. */
int cut(struct ibv_sge *sge, uint64_t base, uint32_t length, uint32_t lkey)
{
	int n = feature('m', 2) ? 1 + (int)chance(MAX_SGE) : 1;
	uint32_t left = length;

	for (int i = 0; i < n; i++) {
		uint32_t bytes = i + 1 == n ? left : chance(left + 1);

		sge[i] = (struct ibv_sge){.addr = base, .length = bytes, .lkey = lkey};
		base += bytes;
		left -= bytes;
	}
	return n;
}
