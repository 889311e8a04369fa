/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/base/checksum_variants.h"

#if defined(__x86_64__)
#pragma GCC target("avx2")
#define XXH_VECTOR XXH_AVX2
#endif
#define XXH_INLINE_ALL
#define XXH_FORCE_MEMORY_ACCESS 1
#include <xxhash.h>

uint64_t sr_checksum_avx2(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}
