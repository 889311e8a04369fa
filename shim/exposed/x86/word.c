/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/x86/word.h"

#include "shim/exposed/x86/decode.h"

NO_VECTORS static int64_t sign_extended(uint64_t v, unsigned int size)
{
	unsigned int shift = 64 - 8 * size;

	return (int64_t)(v << shift) >> shift;
}

/* Writes a part of a register: 4 bytes clear the upper half, 1 and 2 leave the rest alone. */
NO_VECTORS static void put_register(greg_t *r, uint64_t v, unsigned int size, bool high)
{
	switch (size) {
	case 1:
		if (high)
			*r = (*r & ~0xff00ll) | (greg_t)(v & 0xff) << 8;
		else
			*r = (*r & ~0xffll) | (greg_t)(v & 0xff);
		break;
	case 2:
		*r = (*r & ~0xffffll) | (greg_t)(v & 0xffff);
		break;
	case 4:
		*r = (greg_t)(uint32_t)v;
		break;
	default:
		*r = (greg_t)v;
	}
}

#define ARITHMETIC_FLAGS 0x8d5ull

/* The flags of a - b, as the processor has them. */
NO_VECTORS static void compare(greg_t *flags, uint64_t a, uint64_t b, unsigned int size)
{
	uint64_t f;

#define COMPARE(insn, type)                                                                        \
	/* The compiler may keep something below the stack pointer. */                            \
	__asm__("lea -128(%%rsp), %%rsp\n\t" insn " %2, %1\n\tpushfq\n\tpopq %0\n\t"               \
		"lea 128(%%rsp), %%rsp"                                                            \
		: "=&r"(f)                                                                         \
		: "q"((type)a), "q"((type)b)                                                       \
		: "cc", "memory")
	switch (size) {
	case 1:
		COMPARE("cmpb", uint8_t);
		break;
	case 2:
		COMPARE("cmpw", uint16_t);
		break;
	case 4:
		COMPARE("cmpl", uint32_t);
		break;
	default:
		COMPARE("cmpq", uint64_t);
	}
#undef COMPARE
	*flags = (greg_t)(((uint64_t)*flags & ~ARITHMETIC_FLAGS) | (f & ARITHMETIC_FLAGS));
}

NO_VECTORS void word_copy(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	for (size_t size = 8; n; size /= 2)
		for (; n >= size; n -= size, t += size, f += size)
			word_store(t, word_load(f, (unsigned int)size), (unsigned int)size);
}

NO_VECTORS uint64_t word_value(const struct insn *insn, greg_t reg)
{
	return insn->has_immediate ? (uint64_t)insn->immediate : (uint64_t)reg >> (insn->high ? 8 : 0);
}

NO_VECTORS void word_take(const struct insn *insn, greg_t *reg, greg_t *flags, uint64_t v)
{
	if (insn->class == INSN_COMPARE) {
		uint64_t with = word_value(insn, *reg);

		/*
		 * test has the flags of its result compared with 0.  AF, which it leaves undefined, is clear as on
		 * real processors.
		 */
		if (insn->test)
			compare(flags, v & with, 0, insn->size);
		else
			compare(flags, insn->reversed ? with : v, insn->reversed ? v : with, insn->size);
		return;
	}
	if (insn->extends_sign)
		v = (uint64_t)sign_extended(v, insn->size);
	put_register(reg, v, insn->to_size, insn->high);
}
