/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * decode.h: what the instruction at a fault does with memory, from its bytes and the registers.
 *
 * An instruction that is not known here is not an error: the page is then opened for it, as a snapshot for a load
 * or passed through for a store.
 */
#ifndef SHIM_EXPOSED_X86_DECODE_H
#define SHIM_EXPOSED_X86_DECODE_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/exposed/x86/opcodes.h"
#include "shim/exposed/x86/vector.h"

/* Of the flags: the thread traps behind each instruction. */
#define FLAG_STEP 0x100

struct insn {
	enum insn_class class;
	uint8_t length;
	uint8_t size;      /* of the operand in memory; INSN_STRING: of an element */
	uint8_t to_size;   /* INSN_LOAD: of the register's part that is written */
	bool extends_sign; /* INSN_LOAD */
	bool test;         /* INSN_COMPARE: test, not cmp */
	bool reversed;     /* INSN_COMPARE: register - memory */
	bool has_immediate;
	/* INSN_OPERAND: it reads all of its operand, whatever its registers say, and has no exception of its own */
	bool always;
	bool signals; /* INSN_OPERAND: the same, but for floating-point exceptions, which MXCSR mostly masks */
	uint8_t align; /* bits of the address that must be 0: otherwise the CPU reports no page fault but another */
	uint8_t reg;
	bool high;   /* reg is one of ah, ch, dh, bh */
	bool vex;    /* INSN_VECTOR_LOAD: clears the register above what it loads */
	uint8_t from;    /* INSN_VECTOR_STORE: the first byte of the register that is stored */
	uint8_t mask;    /* ... the number of the register with a bit for each element that is stored; 0: all are */
	uint8_t element; /* ... the elements' size */
	bool repeat; /* INSN_STRING: rcx times */
	uintptr_t source; /* INSN_STRING: 0 for stos */
	int64_t immediate;
	uintptr_t address; /* INSN_STRING: the destination */
	struct operand operand;
	struct encoding encoding;
};

static inline bool is_vector_move(const struct insn *insn)
{
	return insn->class == INSN_VECTOR_LOAD || insn->class == INSN_VECTOR_STORE;
}

/* It goes on at an address that it loads. */
static inline bool is_transfer(const struct insn *insn)
{
	return insn->class == INSN_CALL || insn->class == INSN_JUMP;
}

/* What the instruction of these bytes does if it is at pc, whatever the registers: all but its address. */
void decode_bytes(const uint8_t *code, uintptr_t pc, struct insn *insn);

/*
 * The address, from the registers, and of a masked store the size, if it stores the first elements only, as memset of less
 * than a vector does.  Otherwise it becomes an INSN_WRITE.
 */
void decode_address(const ucontext_t *uc, struct insn *insn);

/* Both.  code: the bytes of the instruction at uc's RIP. */
static inline void decode(const uint8_t *code, const ucontext_t *uc, struct insn *insn)
{
	decode_bytes(code, (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], insn);
	decode_address(uc, insn);
}

/* INSN_EXCHANGE: is the stack pointer one of its operands? */
bool decode_names_sp(const struct insn *insn);

/* The general register of that number, and its place among those of a ucontext_t. */
greg_t *decode_register(ucontext_t *uc, uint8_t reg);
int decode_greg(uint8_t reg);
/* All of them, by their numbers, and the flags. */
void decode_registers_to(greg_t *g, const uint64_t r[16], uint64_t flags) NO_VECTORS;
void decode_registers_from(const greg_t *g, uint64_t r[16], uint64_t *flags) NO_VECTORS;

#endif
