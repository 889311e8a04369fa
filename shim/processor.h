/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * processor.h: what tells processors apart to a program that asks cpuid, which is not
 * recorded: the vendor and the features.
 */
#ifndef SHIM_PROCESSOR_H
#define SHIM_PROCESSOR_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define SR_PROCESSOR_WORDS 10

/* Zeros on other machines. */
static inline void sr_processor(uint32_t words[SR_PROCESSOR_WORDS])
{
	memset(words, 0, SR_PROCESSOR_WORDS * sizeof(words[0]));
#if defined(__x86_64__)
	uint32_t a, b, c, d;

	__cpuid(0, a, words[0], words[1], words[2]);
	__cpuid(1, a, b, words[3], words[4]);
	/* Whether the system uses the state that it may save is the kernel's affair, not a feature. */
	words[3] &= ~(1u << 27);
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		words[5] = b;
		words[6] = c;
		words[7] = d;
	}
	if (__get_cpuid(0x80000001, &a, &b, &c, &d))
		words[8] = c;
	if (__get_cpuid(0x80000007, &a, &b, &c, &d))
		words[9] = d;
#endif
}

#endif
