/* SPDX-License-Identifier: BSD-2-Clause */
/* decode.c: after the Intel manual, volume 2, chapter 2 and appendix A. */
#include "shim/window/decode.h"

#include <string.h>

static const int greg_of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				REG_R12, REG_R13, REG_R14, REG_R15};

greg_t *decode_register(ucontext_t *uc, uint8_t reg)
{
	return &uc->uc_mcontext.gregs[greg_of[reg]];
}

struct prefixes {
	bool operand16, lock, rep;
	uint8_t rex;
};

#define REX_W 8
#define REX_R 4
#define REX_X 2
#define REX_B 1

/* False if there is one that makes the address another one. */
static bool prefixes_of(const uint8_t **p, struct prefixes *x)
{
	for (;; (*p)++) {
		switch (**p) {
		case 0x66:
			x->operand16 = true;
			continue;
		case 0xf0:
			x->lock = true;
			continue;
		case 0xf2:
		case 0xf3:
			x->rep = true;
			continue;
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x26:
			continue; /* without meaning in 64-bit mode */
		case 0x64:
		case 0x65:
		case 0x67:
			return false;
		}
		break;
	}
	if ((**p & 0xf0) == 0x40)
		x->rex = *(*p)++;
	return true;
}

static int32_t disp32_at(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* False if the operand is a register.  A RIP-relative address lacks the instruction's length. */
static bool operand(const ucontext_t *uc, const uint8_t **p, uint8_t rex, uintptr_t *address,
		    bool *relative)
{
	const greg_t *g = uc->uc_mcontext.gregs;
	uint8_t modrm = *(*p)++, mod = modrm >> 6, rm = modrm & 7;
	uintptr_t a = 0;

	if (mod == 3)
		return false;
	if (rm == 4) {
		uint8_t sib = *(*p)++, index = (uint8_t)((sib >> 3 & 7) | (rex & REX_X) << 2),
			base = sib & 7;

		if (index != 4)
			a = (uintptr_t)g[greg_of[index]] << (sib >> 6);
		if (base == 5 && !mod) {
			a += (uintptr_t)(intptr_t)disp32_at(*p);
			*p += 4;
		} else {
			a += (uintptr_t)g[greg_of[base | (rex & REX_B) << 3]];
		}
	} else if (rm == 5 && !mod) {
		a = (uintptr_t)(intptr_t)disp32_at(*p);
		*p += 4;
		*relative = true;
	} else {
		a = (uintptr_t)g[greg_of[rm | (rex & REX_B) << 3]];
	}
	if (mod == 1)
		a += (uintptr_t)(intptr_t)(int8_t) * (*p)++;
	if (mod == 2) {
		a += (uintptr_t)(intptr_t)disp32_at(*p);
		*p += 4;
	}
	*address = a;
	return true;
}

static int64_t immediate_at(const uint8_t *p, unsigned int size)
{
	int16_t v16;

	switch (size) {
	case 1:
		return (int8_t)*p;
	case 2:
		memcpy(&v16, p, sizeof(v16));
		return v16;
	default:
		return disp32_at(p);
	}
}

/* The class of a one-byte opcode; *imm: bytes behind the operand. */
static enum insn_class one_byte(struct insn *i, uint8_t op, uint8_t ext, uint8_t wide, uint8_t *imm)
{
	uint8_t imm_wide = wide == 8 ? 4 : wide;

	i->size = op & 1 ? wide : 1;
	i->to_size = i->size;
	/* add or adc sbb and sub xor, register to memory */
	if (op < 0x38 && (op & 7) < 2)
		return INSN_EXCHANGE;
	switch (op) {
	case 0x38:
	case 0x39:
		return INSN_COMPARE;
	case 0x3a:
	case 0x3b:
		i->reversed = true;
		return INSN_COMPARE;
	case 0x63:
		i->size = 4;
		i->to_size = wide;
		i->extends_sign = true;
		return INSN_LOAD;
	case 0x80:
	case 0x81:
	case 0x83:
		*imm = op == 0x81 ? imm_wide : 1;
		return ext == 7 ? INSN_COMPARE : INSN_EXCHANGE;
	case 0x84:
	case 0x85:
		i->test = true;
		return INSN_COMPARE;
	case 0x86:
	case 0x87:
		return INSN_EXCHANGE;
	case 0x88:
	case 0x89:
		return INSN_STORE;
	case 0x8a:
	case 0x8b:
		return INSN_LOAD;
	case 0xc6:
	case 0xc7:
		*imm = op == 0xc7 ? imm_wide : 1;
		return ext ? INSN_UNKNOWN : INSN_STORE;
	case 0xf6:
	case 0xf7:
		if (ext < 2) {
			*imm = op == 0xf7 ? imm_wide : 1;
			i->test = true;
			return INSN_COMPARE;
		}
		return ext < 4 ? INSN_EXCHANGE : INSN_UNKNOWN;
	case 0xfe:
	case 0xff:
		return ext < 2 ? INSN_EXCHANGE : INSN_UNKNOWN;
	}
	return INSN_UNKNOWN;
}

static enum insn_class two_bytes(struct insn *i, uint8_t op, uint8_t ext, uint8_t wide,
				 uint8_t *imm)
{
	i->size = op & 1 ? wide : 1;
	i->to_size = wide;
	switch (op) {
	case 0xb6:
	case 0xb7:
	case 0xbe:
	case 0xbf:
		i->size = op & 1 ? 2 : 1;
		i->extends_sign = op >= 0xbe;
		return INSN_LOAD;
	case 0xb0: /* cmpxchg */
	case 0xb1:
	case 0xc0: /* xadd */
	case 0xc1:
		return INSN_EXCHANGE;
	case 0xba: /* bts, btr, btc */
		i->size = wide;
		*imm = 1;
		return ext > 4 ? INSN_EXCHANGE : INSN_UNKNOWN;
	case 0xc7: /* cmpxchg8b, cmpxchg16b */
		i->size = wide == 8 ? 16 : 8;
		return ext == 1 ? INSN_EXCHANGE : INSN_UNKNOWN;
	}
	return INSN_UNKNOWN;
}

static bool has_register(const struct insn *i)
{
	return !i->has_immediate &&
	       (i->class == INSN_LOAD || i->class == INSN_STORE || i->class == INSN_COMPARE);
}

void decode(const ucontext_t *uc, struct insn *insn)
{
	const uint8_t *start = (const uint8_t *)uc->uc_mcontext.gregs[REG_RIP], *p = start;
	struct prefixes x = {0};
	uint8_t op, ext, wide, imm = 0;
	bool two = false, relative = false;

	*insn = (struct insn){.class = INSN_UNKNOWN};
	if (!prefixes_of(&p, &x))
		return;
	wide = x.rex & REX_W ? 8 : x.operand16 ? 2 : 4;
	insn->opcode_at = (uint8_t)(p - start);
	op = *p++;
	if (op == 0x0f) {
		two = true;
		op = *p++;
	}
	insn->modrm_at = (uint8_t)(p - start);
	ext = *p >> 3 & 7;
	insn->class =
	    two ? two_bytes(insn, op, ext, wide, &imm) : one_byte(insn, op, ext, wide, &imm);
	if (insn->class == INSN_UNKNOWN)
		return;
	/* popcnt and the like share opcodes; xacquire and xrelease are only hints. */
	if (x.rep && !(x.lock && insn->class == INSN_EXCHANGE)) {
		insn->class = INSN_UNKNOWN;
		return;
	}
	insn->reg = (uint8_t)(ext | (x.rex & REX_R) << 1);
	if (!operand(uc, &p, x.rex, &insn->address, &relative)) {
		insn->class = INSN_UNKNOWN;
		return;
	}
	insn->tail_at = (uint8_t)(p - start);
	insn->has_immediate = imm;
	if (imm)
		insn->immediate = immediate_at(p, imm);
	insn->length = (uint8_t)(p + imm - start);
	if (relative)
		insn->address += (uintptr_t)start + insn->length;
	if (!x.rex && has_register(insn) && insn->reg >= 4 && insn->reg < 8 &&
	    (insn->class == INSN_LOAD ? insn->to_size : insn->size) == 1) {
		insn->high = true;
		insn->reg -= 4;
	}
}

uint64_t decode_value(ucontext_t *uc, const struct insn *insn)
{
	if (insn->has_immediate)
		return (uint64_t)insn->immediate;
	return (uint64_t)*decode_register(uc, insn->reg) >> (insn->high ? 8 : 0);
}
