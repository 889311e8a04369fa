/* SPDX-License-Identifier: BSD-2-Clause */
/* counter_module.c: reads the time-stamp counter and draws random numbers, in a library that counter.c and draws.c load late. */
#include <stdint.h>

uint64_t module_counter(void);

uint64_t module_counter(void)
{
	uint32_t low, high;

	__asm__ volatile(".globl module_site\nmodule_site: rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

uint64_t module_draw(void);

uint64_t module_draw(void)
{
	uint64_t value;

	__asm__ volatile("1: rdrand %0\njnc 1b" : "=r"(value));
	return value;
}
