/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/exposed/encodings.h"

#include <string.h>

static uint64_t state;

void encodings_begin(uint64_t seed)
{
	state = seed * 2 + 1;
}

uint64_t random_bits(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dull;
}

unsigned int below(unsigned int n)
{
	return (unsigned int)((random_bits() >> 32) % n);
}

static uint8_t *put_prefixes(uint8_t *p)
{
	static const uint8_t all[] = {0x66, 0x66, 0x66, 0xf2, 0xf2, 0xf3, 0xf3, 0xf0, 0x64, 0x65, 0x67, 0x2e, 0x3e, 0x26, 0x36};

	for (unsigned int n = below(8); n > 5; n--)
		*p++ = all[below(sizeof(all))];
	if (below(2))
		*p++ = all[below(7)];
	if (below(2))
		*p++ = (uint8_t)(0x40 | below(16));
	return p;
}

/* Mostly a valid prefix: with random bits few instructions would be. */
static uint8_t *put_vex(uint8_t *p)
{
	uint8_t v = below(4) ? 0x78 : (uint8_t)(below(16) << 3), pp = (uint8_t)below(4);
	uint8_t l = (uint8_t)below(2), w = (uint8_t)below(2), map = (uint8_t)(1 + below(3)), rxb = (uint8_t)(below(8) << 5);

	switch (below(3)) {
	case 0:
		*p++ = 0xc5;
		*p++ = (uint8_t)((rxb & 0x80) | v | l << 2 | pp);
		break;
	case 1:
		*p++ = 0xc4;
		*p++ = rxb | map;
		*p++ = (uint8_t)(w << 7 | v | l << 2 | pp);
		break;
	default:
		*p++ = 0x62;
		*p++ = (uint8_t)(rxb | below(2) << 4 | map);
		*p++ = (uint8_t)(w << 7 | v | 4 | pp);
		*p++ = below(2) ? (uint8_t)(below(4) << 5 | 8) : (uint8_t)below(256);
	}
	return p;
}

void encodings_next(uint8_t bytes[ENCODING_BYTES])
{
	uint8_t *p = bytes;

	for (unsigned int i = 0; i < ENCODING_BYTES; i += 8) {
		uint64_t v = random_bits();

		memcpy(bytes + i, &v, 8);
	}
	switch (below(8)) {
	case 0:
		return;
	case 1:
	case 2:
	case 3:
		p = put_vex(p);
		break;
	default:
		p = put_prefixes(p);
		if (below(2))
			*p++ = 0x0f;
		if (p > bytes && p[-1] == 0x0f && !below(3))
			*p++ = below(2) ? 0x38 : 0x3a;
	}
	p++; /* a random opcode */
	/* ModRM: memory more often than registers, and RIP now and then. */
	if (below(4))
		*p &= 0xbf;
	if (!below(8))
		*p = (uint8_t)((*p & 0x38) | 5);
}
