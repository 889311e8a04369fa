/* SPDX-License-Identifier: BSD-2-Clause */
/* row.h: what a row of the tables of opcodes says of an instruction. */
#ifndef SHIM_EXPOSED_X86_ROW_H
#define SHIM_EXPOSED_X86_ROW_H

#include <stdint.h>

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
/* INSN_WRITE, INSN_OPERAND (which then reads all of its operand): */
#define OPCODE_SIGNALS   16 /* may have a floating-point exception */
#define OPCODE_ADDRESS   128 /* lea, nop: computes an address at most, and does not touch memory */

#define ENCODED_LEGACY 1
#define ENCODED_VEX    2
#define ENCODED_EVEX   4

struct opcode {
	uint8_t form, immediate, class, size, flags;
	uint8_t encodings; /* of vector instructions */
};

#define MOVHPS 0x17 /* 0f 17: a store of the register's bytes 8 to 15 */

#endif
