/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * length.h: how long any instruction is, and where a direct branch leads.
 *
 * The table of opcodes.h knows what an instruction does, and leaves out what is rare.  Whoever goes through a whole
 * function needs every instruction of 64-bit mode, but only its length.  A test compares it with Zydis.
 */
#ifndef SHIM_EXPOSED_X86_LENGTH_H
#define SHIM_EXPOSED_X86_LENGTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape {
	uint8_t length;
	uint8_t opcode_at; /* where the opcode begins, behind all prefixes; at 0f where that is a part of it */
	bool relative;     /* an operand in memory is relative to RIP */
	bool branches;     /* directly: a jump, a conditional one, or a call ... */
	int32_t distance;  /* ... by so much, from the instruction's end */
};

/*
 * Measures the instruction at code, of which n bytes may be read.  False: it is not valid, reaches further, or has a
 * length that processors do not agree on.
 */
bool shape_of(const uint8_t *code, size_t n, struct shape *s);

#endif
