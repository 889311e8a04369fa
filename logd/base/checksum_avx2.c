/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/base/checksum_variants.h"

#if defined(__x86_64__)
#pragma GCC target("avx2")
#define XXH_VECTOR XXH_AVX2
#endif
#define XXH_INLINE_ALL
#define XXH_FORCE_MEMORY_ACCESS 1
#include <xxhash.h>

/*
 * The upper halves of the registers must be left clear, and a pragma does not make the compiler do that: otherwise each
 * SSE instruction of the program waits for the last one that wrote its register, and loops over floating-point numbers
 * take several times as long.
 */
uint64_t sr_checksum_avx2(const void *p, size_t n, uint64_t seed)
{
	uint64_t sum = XXH3_64bits_withSeed(p, n, seed);

#if defined(__x86_64__)
	__builtin_ia32_vzeroupper();
#endif
	return sum;
}
