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
void word_copy(void *to, const void *from, size_t n) NO_VECTORS;

/* The instruction's other operand: its immediate, or that of its register. */
uint64_t word_value(const struct insn *insn, greg_t reg) NO_VECTORS;

/* INSN_LOAD or INSN_COMPARE: v has been read, and goes to the register or the flags. */
void word_take(const struct insn *insn, greg_t *reg, greg_t *flags, uint64_t v) NO_VECTORS;

/* Of hashes. */
#define WORD_MIX 0x9e3779b97f4a7c15ull

/*
 * A hash of the registers, in the order of their numbers in instructions.  Four side by side: one chain of 16
 * multiplications took longer than the rest of an access by a jump.
 */
NO_VECTORS static inline uint64_t word_registers(const uint64_t r[16], uintptr_t pc)
{
	uint64_t a = pc, b = 1, c = 2, d = 3;

	for (int i = 0; i < 16; i += 4) {
		a = (a ^ r[i]) * WORD_MIX + (uint64_t)i;
		b = (b ^ r[i + 1]) * WORD_MIX + (uint64_t)i;
		c = (c ^ r[i + 2]) * WORD_MIX + (uint64_t)i;
		d = (d ^ r[i + 3]) * WORD_MIX + (uint64_t)i;
	}
	return ((a * WORD_MIX + b) * WORD_MIX + c) * WORD_MIX + d;
}

#endif
