/* SPDX-License-Identifier: BSD-2-Clause */
/* leb128.h: numbers in few bytes if they are small: seven bits a byte, the low ones first. */
#ifndef LOGD_BASE_LEB128_H
#define LOGD_BASE_LEB128_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* The most bytes that one takes. */
#define SR_LEB128_MAX 10

/* Returns where the next one goes. */
static inline uint8_t *sr_leb128_put(uint8_t *p, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*p++ = (uint8_t)(value | 0x80);
	*p++ = (uint8_t)value;
	return p;
}

/* How many of the `size` bytes the number at p has; -EBADMSG: it goes on, or has over 64 bits. */
static inline int sr_leb128_get(const uint8_t *p, size_t size, uint64_t *value)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < size && i < SR_LEB128_MAX; i++) {
		v |= (uint64_t)(p[i] & 0x7f) << 7 * i;
		if (p[i] & 0x80)
			continue;
		if (i == SR_LEB128_MAX - 1 && p[i] > 1)
			break;
		*value = v;
		return (int)i + 1;
	}
	return -EBADMSG;
}

/* Small differences of either sign become small numbers. */
static inline uint64_t sr_zigzag(uint64_t difference)
{
	return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static inline uint64_t sr_unzigzag(uint64_t code)
{
	return code >> 1 ^ -(code & 1);
}

#endif
