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

/* What the fault handler can do with an instruction's operand in memory. */
enum insn_class {
	INSN_UNKNOWN,
	INSN_LOAD,         /* memory to general register: mov, movzx, movsx */
	INSN_COMPARE,      /* memory with register or immediate: cmp, test */
	INSN_STORE,        /* register or immediate to memory: mov */
	INSN_VECTOR_LOAD,  /* memory to vector register, with no other effect */
	INSN_VECTOR_STORE, /* vector register to memory */
	INSN_STRING,       /* movs, stos */
	INSN_OPERAND,      /* computes with memory, and leaves it as it is: add, imul, pcmpeqb, ... */
	INSN_CALL,         /* by an address in memory */
	INSN_JUMP,         /* the same */
	INSN_WRITE,        /* vector, mask or x87 register to memory: converted, or some elements only */
	INSN_EXCHANGE,     /* reads and writes, or only writes, at most 16 bytes: add, xchg, cmpxchg, setc, ... */
};

/* How an instruction can be copied to another address. */
enum form {
	FORM_UNKNOWN, /* not in the table, or not to be copied */
	FORM_PLAIN,   /* as it is */
	FORM_MODRM,   /* has a ModRM byte: an operand relative to RIP needs another distance */
	FORM_BRANCH,  /* conditional */
	FORM_JUMP,
	FORM_CALL,
	FORM_RETURN,
	FORM_CALL_BY, /* a call by a register or memory, which ModRM says */
	FORM_JUMP_BY,
	FORM_GROUP,   /* in the table only: bits 3 to 5 of ModRM choose the row */
	FORM_PREFIX,  /* in the table only */
};

#define OPCODE_ALWAYS    1 /* reads all of its operand, whatever its registers say, and has no exception of its own */
#define OPCODE_SIGN      2 /* INSN_LOAD: extends the sign */
#define OPCODE_EXTENDS   4 /* INSN_LOAD: writes a whole register, of the operand size */
#define OPCODE_TEST      8 /* INSN_COMPARE: test, not cmp */
#define OPCODE_REVERSED  16 /* INSN_COMPARE: register - memory */
#define OPCODE_ALIGNED   32 /* a misaligned operand is an exception of its own */
#define OPCODE_UNALIGNED 64 /* legacy encoding: 16 bytes that need no alignment */
/* INSN_WRITE: */
#define OPCODE_ELEMENTS  8  /* EVEX's short displacement counts in elements */
#define OPCODE_SIGNALS   16 /* may have a floating-point exception */
#define OPCODE_ADDRESS   128 /* lea, nop: computes an address at most, and does not touch memory */

struct opcode {
	uint8_t form, immediate, class, size, flags;
	uint8_t encodings; /* of vector instructions */
};

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

#define ENCODED_LEGACY 1
#define ENCODED_VEX    2
#define ENCODED_EVEX   4

#define EVEX_MASK      0x07 /* in the prefix's last byte */
#define EVEX_NO_V      0x08
#define EVEX_BROADCAST 0x10
#define EVEX_ZERO      0x80

#define INSN_BYTES_MAX 15

#define POP 0x8f /* to memory, with 0 in ModRM */
#define MOVDQ_STORE 0x7f /* 0f 7f: movdqa, movdqu to memory */
#define VPCOMPRESSB 0x63 /* 0f 38 63: with W vpcompressw */
#define MOVHPS 0x17 /* 0f 17: a store of the register's bytes 8 to 15 */

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
