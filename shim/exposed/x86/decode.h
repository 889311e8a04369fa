/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * decode.h: the instruction at a fault, as far as it is worth doing aside.
 *
 * What is not known here is not an error: a load is then given a frozen page,
 * a store a live one.
 */
#ifndef SHIM_EXPOSED_X86_DECODE_H
#define SHIM_EXPOSED_X86_DECODE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum insn_class {
	INSN_UNKNOWN,
	INSN_LOAD,     /* memory to register: mov, movzx, movsx */
	INSN_COMPARE,  /* memory with register or immediate: cmp, test */
	INSN_STORE,    /* register or immediate to memory: mov */
	INSN_VECTOR_LOAD,  /* memory to vector register */
	INSN_VECTOR_STORE, /* vector register to memory */
	INSN_STRING,       /* movs, stos: `address` is the destination */
	INSN_OPERAND, /* computes with memory, and leaves it as it is: add, imul, pcmpeqb, ... */
	INSN_EXCHANGE, /* reads and writes memory of at most 16 bytes: add, xchg, cmpxchg, ... */
};

struct insn {
	enum insn_class class;
	uint8_t length;
	uint8_t size;      /* of the operand in memory */
	uint8_t to_size;   /* INSN_LOAD: of the register's part that is written */
	bool extends_sign; /* INSN_LOAD */
	bool test;         /* INSN_COMPARE: test, not cmp */
	bool reversed;     /* INSN_COMPARE: register - memory */
	bool has_immediate;
	/* INSN_OPERAND: it reads all of its operand, whatever its registers say, and has no exception of its own */
	bool always;
	uint8_t align; /* of a vector: bits of its address that must be 0, or it is no page fault that it meets */
	uint8_t reg;
	bool high;   /* reg is one of ah, ch, dh, bh */
	bool vex;    /* INSN_VECTOR_LOAD: clears what is above */
	bool repeat; /* INSN_STRING: rcx times */
	uintptr_t source; /* INSN_STRING: 0 for stos */
	int64_t immediate;
	uintptr_t address;
	/* INSN_EXCHANGE, INSN_OPERAND: where its bytes are. */
	uint8_t opcode_at, modrm_at, tail_at;
};

void decode(const ucontext_t *uc, struct insn *insn);

/* The general register of that number. */
greg_t *decode_register(ucontext_t *uc, uint8_t reg);

/* A displacement or distance of four bytes. */
static inline int32_t decode_disp32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Has the instruction of that map of VEX's a byte behind its operand? */
static inline bool decode_vex_has_immediate(uint8_t map, uint8_t op)
{
	return map == 3 || (map == 1 && ((op >= 0x70 && op <= 0x73) || op == 0xc2 ||
					 (op >= 0xc4 && op <= 0xc6)));
}

#endif
