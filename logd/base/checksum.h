/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum.h: of what the program sends: compared on replay, not kept.
 *
 * XXH3 is the faster one natively: half the time for short messages, three
 * quarters for long ones (4 KiB: 250 and 360 ns).  Where the processor is
 * emulated (docs/internals/runner.md) its vector instructions take 25 times as long as the
 * multiplications of XXH64: 4.5 and 0.17 ns a byte, of 23 that rxe takes there
 * to send it.  So long messages have XXH64.
 */
#ifndef LOGD_BASE_CHECKSUM_H
#define LOGD_BASE_CHECKSUM_H

#define XXH_INLINE_ALL
/* Words are read as such: by memcpy, which -fno-builtin makes a call, it takes five times as long. */
#define XXH_FORCE_MEMORY_ACCESS 1
#include <xxhash.h>

/* Up to here XXH3 has no vector instructions. */
#define SR_CHECKSUM_SHORT 240

/* Of pieces one after the other: the sum of those before as the seed of the next. */
static inline uint64_t sr_checksum(const void *p, size_t n, uint64_t seed)
{
	return n <= SR_CHECKSUM_SHORT ? XXH3_64bits_withSeed(p, n, seed) : XXH64(p, n, seed);
}

#endif
