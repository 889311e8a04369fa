/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum.h: checksums of what the program sends.  The trace has them in place of the bytes, and
 * a replay compares them.
 *
 * Natively XXH3 is faster: it takes half the time for short messages, and three quarters for
 * long ones (4 KiB: 250 ns and 360 ns).  On an emulated processor (docs/internals/runner.md) its
 * vector instructions take 25 times as long as the multiplications of XXH64 (4.5 ns and 0.17 ns
 * a byte; rxe takes 23 ns there to send one).  So long messages get XXH64.
 */
#ifndef LOGD_BASE_CHECKSUM_H
#define LOGD_BASE_CHECKSUM_H

#define XXH_INLINE_ALL
/* Reads words directly.  memcpy is a call under -fno-builtin, and takes five times as long. */
#define XXH_FORCE_MEMORY_ACCESS 1
#include <xxhash.h>

/* Up to this size XXH3 uses no vector instructions. */
#define SR_CHECKSUM_SHORT 240

/* Of several pieces: the checksum of those before is the seed of the next one. */
static inline uint64_t sr_checksum(const void *p, size_t n, uint64_t seed)
{
	return n <= SR_CHECKSUM_SHORT ? XXH3_64bits_withSeed(p, n, seed) : XXH64(p, n, seed);
}

#endif
