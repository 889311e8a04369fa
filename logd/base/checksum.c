/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum.c: chooses the instructions for long checksums.
 *
 * Natively AVX2 takes a third of the time of plain words.  An emulated processor (docs/internals/runner.md) executes
 * vector instructions many times slower than multiplications of words.
 */
#include "logd/base/checksum.h"

#include <stdbool.h>
#include <string.h>

#include "logd/base/checksum_variants.h"

static uint64_t by_default(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

static uint64_t (*chosen)(const void *p, size_t n, uint64_t seed) = by_default;

#if defined(__x86_64__)
#include <cpuid.h>

static bool is_emulated(void)
{
	uint32_t a, b, c, d, name[3];

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31))
		return false;
	/* Of the hypervisor's name. */
	__cpuid(0x40000000, a, name[0], name[1], name[2]);
	return !memcmp(name, "TCGTCGTCGTCG", sizeof(name));
}

/* Before the program's cpuid may trap. All give the same result, so it does not matter who came earlier. */
__attribute__((constructor)) static void choose(void)
{
	if (is_emulated())
		chosen = sr_checksum_scalar;
	else if (__builtin_cpu_supports("avx2"))
		chosen = sr_checksum_avx2;
}
#endif

uint64_t sr_checksum_long(const void *p, size_t n, uint64_t seed)
{
	return chosen(p, n, seed);
}
