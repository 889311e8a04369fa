/* SPDX-License-Identifier: BSD-2-Clause */
/* sha1.c: see sha1.h. */
#include <assert.h>
#include <string.h>

#include "sha1.h"

#define BLOCK  64
#define STEPS  80
#define LENGTH 56 /* where the block holds the number of bits */

static uint32_t rotate(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

static uint32_t word_at(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t mix(int step, uint32_t b, uint32_t c, uint32_t d)
{
	if (step < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (step < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (step < 60)
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

void sha1(uint8_t digest[SHA1_BYTES], const void *message, size_t bytes)
{
	static const uint32_t start[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
					  0xc3d2e1f0};
	uint8_t block[BLOCK] = {0};
	uint32_t w[STEPS], s[5], t;

	assert(bytes < LENGTH);
	memcpy(block, message, bytes);
	block[bytes] = 0x80;
	block[BLOCK - 2] = (uint8_t)(bytes * 8 >> 8);
	block[BLOCK - 1] = (uint8_t)(bytes * 8);
	for (int i = 0; i < 16; i++)
		w[i] = word_at(block + 4 * i);
	for (int i = 16; i < STEPS; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(s, start, sizeof(s));
	for (int i = 0; i < STEPS; i++) {
		t = rotate(s[0], 5) + mix(i, s[1], s[2], s[3]) + s[4] + w[i];
		s[4] = s[3];
		s[3] = s[2];
		s[2] = rotate(s[1], 30);
		s[1] = s[0];
		s[0] = t;
	}
	for (int i = 0; i < SHA1_BYTES; i++)
		digest[i] = (uint8_t)((s[i / 4] + start[i / 4]) >> (24 - 8 * (i % 4)));
}
