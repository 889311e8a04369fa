/* SPDX-License-Identifier: BSD-2-Clause */
/* counter_module.c: reads the time-stamp counter, in a library that counter.c loads late. */
#include <stdint.h>

uint64_t module_counter(void);

uint64_t module_counter(void)
{
	uint32_t low, high;

	__asm__ volatile(".globl module_site\nmodule_site: rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}
