/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * word.h: an operand of 1, 2, 4 or 8 bytes, and what an instruction does with it.
 *
 * In general registers only: a probe calls these before it has saved the vector registers.
 */
#ifndef SHIM_EXPOSED_X86_WORD_H
#define SHIM_EXPOSED_X86_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/exposed/x86/vector.h"

struct insn;

/* In one access, as the program would do it. */
NO_VECTORS static inline uint64_t word_load(const void *p, unsigned int size)
{
	switch (size) {
	case 1:
		return *(const volatile uint8_t *)p;
	case 2:
		return *(const volatile uint16_t *)p;
	case 4:
		return *(const volatile uint32_t *)p;
	default:
		return *(const volatile uint64_t *)p;
	}
}

NO_VECTORS static inline void word_store(void *p, uint64_t v, unsigned int size)
{
	switch (size) {
	case 1:
		*(volatile uint8_t *)p = (uint8_t)v;
		break;
	case 2:
		*(volatile uint16_t *)p = (uint16_t)v;
		break;
	case 4:
		*(volatile uint32_t *)p = (uint32_t)v;
		break;
	default:
		*(volatile uint64_t *)p = v;
	}
}

/*
 * Copies word by word, upwards, in as few accesses as possible.  A processor promises no more of a vector than of its
 * words.
 */
void word_copy(void *to, const void *from, size_t n);

/* The instruction's other operand: its immediate, or that of its register. */
uint64_t word_value(const struct insn *insn, greg_t reg) NO_VECTORS;

/* INSN_LOAD or INSN_COMPARE: v has been read, and goes to the register or the flags. */
void word_take(const struct insn *insn, greg_t *reg, greg_t *flags, uint64_t v) NO_VECTORS;

/* A hash of the registers, in the order of their numbers in instructions. */
NO_VECTORS static inline uint64_t word_registers(const uint64_t r[16], uintptr_t pc)
{
	uint64_t hash = pc;

	for (int i = 0; i < 16; i++)
		hash = (hash ^ r[i]) * 0x9e3779b97f4a7c15ull + (uint64_t)i;
	return hash;
}

#endif
