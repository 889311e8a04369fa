/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum.h: checksums of what the program sends (XXH3).  The trace has them in place of the bytes, and
 * a replay compares them.
 */
#ifndef LOGD_BASE_CHECKSUM_H
#define LOGD_BASE_CHECKSUM_H

#define XXH_INLINE_ALL
/* Reads words directly.  memcpy is a call under -fno-builtin, and takes five times as long. */
#define XXH_FORCE_MEMORY_ACCESS 1
#include <xxhash.h>

/* Up to this size XXH3 uses no vector instructions. */
#define SR_CHECKSUM_SHORT 240

/* The same function, by the instructions that are fastest on this processor: checksum.c. */
uint64_t sr_checksum_long(const void *p, size_t n, uint64_t seed);

/* Of several pieces: the checksum of those before is the seed of the next one. */
static inline uint64_t sr_checksum(const void *p, size_t n, uint64_t seed)
{
	return n <= SR_CHECKSUM_SHORT ? XXH3_64bits_withSeed(p, n, seed) : sr_checksum_long(p, n, seed);
}

#endif
