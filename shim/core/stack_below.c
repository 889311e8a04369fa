/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/stack_below.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint8_t sr_vectors = SR_VECTORS_SSE;

#if defined(__x86_64__)
#define OSXSAVE      (1u << 27)
#define STATE_AVX    (1u << 2)
#define STATE_AVX512 (7u << 5)

/* xgetbv is not answered from a trace, unlike cpuid: what it says can be executed here. */
void sr_vectors_find(void)
{
	unsigned int a, b, c, d, states, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
		return;
	__asm__("xgetbv" : "=a"(states), "=d"(high) : "c"(0));
	if (states & STATE_AVX)
		sr_vectors = (states & STATE_AVX512) == STATE_AVX512 ? SR_VECTORS_AVX512 : SR_VECTORS_AVX;
}
#else
void sr_vectors_find(void)
{
}
#endif
