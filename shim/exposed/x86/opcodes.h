/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opcodes.h: the one table of x86-64 opcodes, and an instruction's bytes taken apart with it.
 *
 * The decoder (decode.h) and the code that moves instructions (relocate.h) both ask here, so that they
 * cannot disagree.  The table leaves out what is rare: an instruction that is not in it is neither executed by the
 * fault handler nor moved.  A test compares every row with Zydis (docs/internals/x86.md).
 */
#ifndef SHIM_EXPOSED_X86_OPCODES_H
#define SHIM_EXPOSED_X86_OPCODES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "shim/exposed/x86/row.h"

/* The bytes in front of the opcode. */
#define PREFIX_OPERAND16 0x66
#define PREFIX_LOCK      0xf0
#define PREFIX_REPNE     0xf2
#define PREFIX_REP       0xf3
#define PREFIX_FS        0x64
#define PREFIX_GS        0x65
#define PREFIX_VEX2      0xc5
#define PREFIX_VEX3      0xc4
#define PREFIX_EVEX      0x62

#define REX_W 8
#define REX_R 4
#define REX_X 2
#define REX_B 1

#define EVEX_MASK      0x07 /* in the prefix's last byte */
#define EVEX_NO_V      0x08
#define EVEX_BROADCAST 0x10
#define EVEX_ZERO      0x80

#define INSN_BYTES_MAX 15

#define POP 0x8f /* to memory, with 0 in ModRM */
#define MOVDQ_STORE 0x7f /* 0f 7f: movdqa, movdqu to memory */
#define VPCOMPRESSB 0x63 /* 0f 38 63: with W vpcompressw */

/* An instruction's bytes, taken apart. */
struct encoding {
	struct opcode op;
	uint8_t length;
	uint8_t kind;   /* ENCODED_LEGACY, ... */
	uint8_t map;    /* 0: one byte, 1: 0f, 2: 0f 38, 3: 0f 3a */
	uint8_t opcode;
	uint8_t rex;    /* REX's four bits, whichever prefix has them */
	uint8_t high;   /* EVEX: 16 if the register is one of 16 to 31 */
	uint8_t vector; /* bytes of the vector registers */
	uint8_t evex;   /* its last byte */
	uint8_t prefix; /* VEX, EVEX: 0 to 3 for none, 66, f3, f2 */
	uint8_t segment; /* PREFIX_FS, PREFIX_GS or 0 */
	uint8_t repeat;  /* PREFIX_REPNE, PREFIX_REP or 0 */
	bool has_rex, operand16, lock;
	bool prefixed;   /* some legacy prefix other than REX */
	uint8_t rex_at;  /* ... of REX itself */
	uint8_t modrm_at, displacement_at, immediate_at; /* modrm_at is 0 if there is none */
	uint8_t displacement_bytes, immediate_bytes;
	bool has_memory, has_sib, relative; /* what ModRM says: the operand is in memory, and how it is found */
};

/* Takes apart the instruction at code.  False if the table does not have it. */
bool encoding_of(const uint8_t *code, struct encoding *e);

/* The operand's bytes in memory; 0: not known. */
uint8_t encoding_operand_size(const struct encoding *e);

/* bts, btr, btc: its register says which bit, counted from the operand, perhaps in another word. */
static inline bool encoding_chooses_bit(const struct encoding *e)
{
	return e->kind == ENCODED_LEGACY && e->map == 1 && (e->opcode == 0xab || e->opcode == 0xb3 || e->opcode == 0xbb);
}

/* To memory. */
static inline bool encoding_pops(const struct encoding *e)
{
	return e->kind == ENCODED_LEGACY && !e->map && e->opcode == POP;
}

/* Of its elements, if they have masks. */
uint8_t encoding_element(const struct encoding *e);

/* 2, 4 or 8. */
static inline uint8_t encoding_word(const struct encoding *e)
{
	return e->rex & REX_W ? 8 : e->operand16 ? 2 : 4;
}

/* Where an operand in memory is: registers by their numbers in instructions. */
struct operand {
	uint8_t base, index; /* NO_REGISTER: none */
	uint8_t shift;
	uintptr_t displacement; /* an address, where the operand is relative to RIP */
};

#define NO_REGISTER 255
/* The numbers of registers in instructions. */
#define REGISTER_AX 0
#define REGISTER_CX 1
#define REGISTER_SP 4 /* the stack pointer */

/* pc: the instruction's address.  False if the operand is a register, or none, or relative to a segment. */
bool encoding_operand(const uint8_t *code, uintptr_t pc, const struct encoding *e, struct operand *o);

/* A number of 0, 1, 2, 4 or 8 bytes, sign-extended. */
static inline int64_t signed_at(const uint8_t *p, unsigned int size)
{
	int16_t v2;
	int32_t v4;
	int64_t v8;

	switch (size) {
	case 0:
		return 0;
	case 1:
		return (int8_t)*p;
	case 2:
		memcpy(&v2, p, sizeof(v2));
		return v2;
	case 4:
		memcpy(&v4, p, sizeof(v4));
		return v4;
	default:
		memcpy(&v8, p, sizeof(v8));
		return v8;
	}
}

#endif
