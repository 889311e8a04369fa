/* SPDX-License-Identifier: BSD-2-Clause */
/* decode.c: after the Intel manual, volume 2, chapter 2 and appendix A. */
#include "shim/exposed/x86/decode.h"

#include <string.h>

#include "shim/exposed/probe/code.h"
#include "shim/exposed/x86/vector.h"

static const int greg_of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				REG_R12, REG_R13, REG_R14, REG_R15};

greg_t *decode_register(ucontext_t *uc, uint8_t reg)
{
	return &uc->uc_mcontext.gregs[greg_of[reg]];
}

struct prefixes {
	bool operand16, lock, rep;
	uint8_t rex, last_rep;
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
			x->last_rep = **p;
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
			a += (uintptr_t)(intptr_t)decode_disp32(*p);
			*p += 4;
		} else {
			a += (uintptr_t)g[greg_of[base | (rex & REX_B) << 3]];
		}
	} else if (rm == 5 && !mod) {
		a = (uintptr_t)(intptr_t)decode_disp32(*p);
		*p += 4;
		*relative = true;
	} else {
		a = (uintptr_t)g[greg_of[rm | (rex & REX_B) << 3]];
	}
	if (mod == 1)
		a += (uintptr_t)(intptr_t)(int8_t) * (*p)++;
	if (mod == 2) {
		a += (uintptr_t)(intptr_t)decode_disp32(*p);
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
		return decode_disp32(p);
	}
}

/* The class of a one-byte opcode; *imm: bytes behind the operand. */
static enum insn_class one_byte(struct insn *i, uint8_t op, uint8_t ext, uint8_t wide, uint8_t *imm)
{
	uint8_t imm_wide = wide == 8 ? 4 : wide;

	i->size = op & 1 ? wide : 1;
	i->to_size = i->size;
	i->always = true;
	/* add or adc sbb and sub xor, register to memory */
	if (op < 0x38 && (op & 7) < 2)
		return INSN_EXCHANGE;
	/* memory to register */
	if (op < 0x38 && (op & 7) < 4)
		return INSN_OPERAND;
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
	case 0x69: /* imul */
	case 0x6b:
		i->size = wide;
		*imm = op == 0x69 ? imm_wide : 1;
		return INSN_OPERAND;
	case 0xc0: /* shifts */
	case 0xc1:
		*imm = 1;
		return INSN_EXCHANGE;
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3:
		return INSN_EXCHANGE;
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
		/* Not a division: its trap is the program's. */
		return ext < 4 ? INSN_EXCHANGE : ext < 6 ? INSN_OPERAND : INSN_UNKNOWN;
	case 0xfe:
	case 0xff:
		return ext < 2 ? INSN_EXCHANGE : INSN_UNKNOWN;
	}
	return INSN_UNKNOWN;
}

/* Of those that compute with vectors: x87's exceptions are its own. */
static bool is_mmx(uint8_t op, uint8_t prefix)
{
	return !prefix && (op == 0x2a || op == 0x2c || op == 0x2d || (op >= 0x60 && op <= 0x76) || op >= 0xd1);
}

/* Arithmetic of vector registers and memory; 0: none, or of another length. */
static uint8_t vector_operand_size(uint8_t op, uint8_t prefix, uint8_t wide)
{
	if (op == 0x2a)
		return prefix == 0xf2 || prefix == 0xf3 ? wide : 0;
	if (op == 0x2e || op == 0x2f)
		return prefix == 0x66 ? 8 : 4;
	if (op == 0x70 || op == 0xc6)
		return 16;
	if (!(op >= 0x51 && op < 0x6e) && op != 0xc2 && op != 0x2c && op != 0x2d && (op < 0x74 || op > 0x76) &&
	    (op < 0xd1 || op == 0xd6 || op == 0xd7 || op == 0xe7 || op == 0xf0 || op == 0xf7 ||
	     op == 0xff))
		return 0;
	if (is_mmx(op, prefix))
		return 8;
	/* cvttps2dq, cvtdq2pd, cvtpd2dq: not of one number */
	if (op == 0x5b || op == 0xe6)
		return 16;
	return prefix == 0xf3 ? 4 : prefix == 0xf2 ? 8 : 16;
}

/* Those with the prefix f2 or f3 that are of one number. */
static bool is_scalar(uint8_t op)
{
	return op == 0x2a || op == 0x2c || op == 0x2d || op == 0xc2 || (op >= 0x51 && op <= 0x5f && op != 0x5b);
}

/* Comparisons, logic and arithmetic of vectors of integers: what strings are looked through with, above all. */
static bool is_of_integers(uint8_t map, uint8_t op)
{
	switch (map) {
	case 1:
		return (op >= 0x54 && op <= 0x57) || (op >= 0x60 && op < 0x6e) || op == 0x70 ||
		       (op >= 0x74 && op <= 0x76) || (op >= 0xd1 && op != 0xe6);
	case 2:
		return op < 0x0c || op == 0x17 || (op >= 0x1c && op <= 0x1e) || (op >= 0x26 && op <= 0x29) ||
		       (op >= 0x37 && op <= 0x40);
	default:
		return op == 0x0f || op == 0x1e || op == 0x1f || op == 0x3e || op == 0x3f;
	}
}

static enum insn_class two_bytes(struct insn *i, uint8_t op, uint8_t ext, uint8_t wide,
				 uint8_t prefix, uint8_t *imm)
{
	i->size = op & 1 ? wide : 1;
	i->to_size = wide;
	i->always = true;
	if (op >= 0x90 && op < 0xa0) { /* set */
		i->size = 1;
		return INSN_EXCHANGE;
	}
	if (op >= 0x40 && op < 0x50) { /* cmov */
		i->size = wide;
		return INSN_OPERAND;
	}
	switch (op) {
	case 0xa4: /* shld, shrd */
	case 0xac:
		*imm = 1;
		/* fall through */
	case 0xa5:
	case 0xad:
		i->size = wide;
		return INSN_EXCHANGE;
	case 0xb8: /* popcnt */
		i->size = wide;
		return prefix == 0xf3 ? INSN_OPERAND : INSN_UNKNOWN;
	case 0xaf: /* imul */
	case 0xbc: /* bsf, bsr */
	case 0xbd:
		i->size = wide;
		return INSN_OPERAND;
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
		return ext > 4 ? INSN_EXCHANGE : ext == 4 ? INSN_OPERAND : INSN_UNKNOWN;
	case 0xc7: /* cmpxchg8b, cmpxchg16b */
		i->size = wide == 8 ? 16 : 8;
		return ext == 1 ? INSN_EXCHANGE : INSN_UNKNOWN;
	}
	i->size = vector_operand_size(op, prefix, wide);
	i->align = i->size == 16 ? 15 : 0;
	i->always = is_of_integers(1, op) && !is_mmx(op, prefix);
	*imm = op == 0x70 || op == 0xc2 || op == 0xc6;
	return i->size ? INSN_OPERAND : INSN_UNKNOWN;
}

static bool has_register(const struct insn *i)
{
	return !i->has_immediate &&
	       (i->class == INSN_LOAD || i->class == INSN_STORE || i->class == INSN_COMPARE);
}

/* --------------------------------------------------------- vectors, strings */

/* What a VEX or EVEX prefix says; the opcode is behind it. */
struct vex {
	uint8_t rex, map, prefix, bytes;
	bool wide, evex;
	uint8_t high_reg; /* 16: reg is one of 16 to 31 */
};

static const uint8_t prefix_of_pp[4] = {0, 0x66, 0xf3, 0xf2};

/* False if it is none, or says more than a plain move has. */
static bool vex_of(const uint8_t **p, struct vex *v)
{
	const uint8_t *b = *p;

	*v = (struct vex){0};
	switch (b[0]) {
	case 0xc5:
		v->rex = b[1] & 0x80 ? 0 : REX_R;
		v->map = 1;
		v->prefix = prefix_of_pp[b[1] & 3];
		v->bytes = b[1] & 4 ? 32 : 16;
		*p += 2;
		return (b[1] & 0x78) == 0x78;
	case 0xc4:
		v->rex = (uint8_t)(~b[1] >> 5 & 7);
		v->map = b[1] & 0x1f;
		v->wide = b[2] & 0x80;
		v->prefix = prefix_of_pp[b[2] & 3];
		v->bytes = b[2] & 4 ? 32 : 16;
		*p += 3;
		return (b[2] & 0x78) == 0x78;
	case 0x62:
		v->evex = true;
		v->rex = (uint8_t)(~b[1] >> 5 & 7);
		v->high_reg = b[1] & 0x10 ? 0 : 16;
		v->map = b[1] & 7;
		v->wide = b[2] & 0x80;
		v->prefix = prefix_of_pp[b[2] & 3];
		v->bytes = (uint8_t)(16 << (b[3] >> 5 & 3));
		*p += 4;
		/* No other operand, no mask, no broadcast. */
		return (b[2] & 0x78) == 0x78 && (b[3] & 0x9f) == 0x08 && v->bytes != 128;
	}
	return false;
}

/* The operand's address; an EVEX displacement of a byte counts in operands. */
static bool vector_operand(const ucontext_t *uc, const uint8_t **p, const struct vex *v,
			   struct insn *insn, bool *relative)
{
	uint8_t mod = **p >> 6, sib = (**p & 7) == 4;
	int8_t disp = (int8_t)(*p)[1 + sib];

	if (!operand(uc, p, v->rex, &insn->address, relative))
		return false;
	if (v->evex && mod == 1)
		insn->address += (uintptr_t)((intptr_t)disp * (insn->size - 1));
	return true;
}

static void decode_vector(const ucontext_t *uc, struct insn *insn, const uint8_t *start,
			  const uint8_t *p, const struct vex *v)
{
	bool relative = false;
	uint8_t op = *p++;

	vector_move(insn, op, v->prefix, v->wide, v->bytes);
	if (insn->class == INSN_UNKNOWN)
		return;
	insn->reg = (uint8_t)((*p >> 3 & 7) | (v->rex & REX_R) << 1 | v->high_reg);
	if (!vector_operand(uc, &p, v, insn, &relative)) {
		insn->class = INSN_UNKNOWN;
		return;
	}
	insn->length = (uint8_t)(p - start);
	if (relative)
		insn->address += (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] + insn->length;
}

/* Those of EVEX whose operand is a whole vector, as a displacement of a byte is counted in. */
static bool is_full_vector(uint8_t map, uint8_t op)
{
	switch (map) {
	case 1:
		return (op >= 0x74 && op <= 0x76) || op == 0xda || op == 0xdb || op == 0xdf ||
		       op == 0xeb || op == 0xef;
	case 2:
		return op == 0x26 || op == 0x27 || op == 0x3a || op == 0x3b;
	default:
		return op == 0x1e || op == 0x1f || op == 0x25 || op == 0x3e || op == 0x3f;
	}
}

/* Of how many bytes it is at most; 0: not one operand, or not known. */
static uint8_t vex_operand_size(const struct vex *v, uint8_t op)
{
	if (v->evex)
		return is_full_vector(v->map, op) ? v->bytes : 0;
	if (v->map == 1 && (op == 0x2e || op == 0x2f))
		return v->prefix == 0x66 ? 8 : 4;
	if (v->map == 1 && (v->prefix == 0xf2 || v->prefix == 0xf3) && is_scalar(op))
		return op == 0x2a && v->wide ? 8 : v->prefix == 0xf2 ? 8 : 4;
	/* shifts, by a count of which 8 bytes matter */
	if (v->map == 1 && ((op >= 0xd1 && op <= 0xd3) || op == 0xe1 || op == 0xe2 || (op >= 0xf1 && op <= 0xf3)))
		return 16;
	/* gathers, tiles */
	if (v->map == 2 && ((op >= 0x90 && op <= 0x93) || op == 0x49 || op == 0x4b))
		return 0;
	if ((v->map == 2 || v->map == 3) && op >= 0xf0)
		return v->wide ? 8 : 4;
	return v->map >= 1 && v->map <= 3 ? v->bytes : 0;
}

#define EVEX_MASK      0x07 /* of the prefix's last byte */
#define EVEX_BROADCAST 0x10

/* Whatever computes with memory; what stores there is told by the fault. */
static void decode_vex(const ucontext_t *uc, struct insn *insn, const uint8_t *start)
{
	const uint8_t *p = start;
	bool relative = false;
	struct vex v;
	uint8_t op;

	vex_of(&p, &v);
	insn->vex = true;
	insn->opcode_at = (uint8_t)(p - start);
	op = *p++;
	insn->modrm_at = (uint8_t)(p - start);
	insn->size = vex_operand_size(&v, op);
	insn->always = is_of_integers(v.map, op) && !(v.evex && start[3] & EVEX_MASK);
	/* A broadcast's displacement counts in elements. */
	if (!insn->size || (v.evex && start[3] & EVEX_BROADCAST) || !vector_operand(uc, &p, &v, insn, &relative))
		return;
	insn->tail_at = (uint8_t)(p - start);
	insn->length = (uint8_t)(insn->tail_at + decode_vex_has_immediate(v.map, op));
	if (relative)
		insn->address += (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] + insn->length;
	insn->class = INSN_OPERAND;
}

static bool is_vex(uint8_t byte)
{
	return byte == 0xc4 || byte == 0xc5 || byte == 0x62;
}

#define DIRECTION_FLAG 0x400

/* p is behind the opcode. */
static void decode_string(const ucontext_t *uc, struct insn *insn, const uint8_t *start,
			  const uint8_t *p, uint8_t op, uint8_t wide, bool repeat)
{
	const greg_t *g = uc->uc_mcontext.gregs;

	if (g[REG_EFL] & DIRECTION_FLAG)
		return;
	insn->class = INSN_STRING;
	insn->size = op & 1 ? wide : 1;
	insn->repeat = repeat;
	insn->address = (uintptr_t)g[REG_RDI];
	insn->source = op < 0xa6 ? (uintptr_t)g[REG_RSI] : 0;
	insn->length = (uint8_t)(p - start);
}

static bool is_string(uint8_t op)
{
	return op == 0xa4 || op == 0xa5 || op == 0xaa || op == 0xab;
}

void decode(const ucontext_t *uc, struct insn *insn)
{
	const uint8_t *start = code_at((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]), *p = start;
	struct prefixes x = {0};
	struct vex v;
	uint8_t op, ext, wide, imm = 0;
	bool two = false, relative = false;

	*insn = (struct insn){.class = INSN_UNKNOWN};
	if (!prefixes_of(&p, &x))
		return;
	if (p == start && vex_of(&p, &v)) {
		insn->vex = true;
		if (v.map == 1)
			decode_vector(uc, insn, start, p, &v);
		if (insn->class == INSN_UNKNOWN)
			decode_vex(uc, insn, start);
		return;
	}
	if (is_vex(*start)) {
		decode_vex(uc, insn, start);
		return;
	}
	wide = x.rex & REX_W ? 8 : x.operand16 ? 2 : 4;
	insn->opcode_at = (uint8_t)(p - start);
	op = *p++;
	if (is_string(op)) {
		decode_string(uc, insn, start, p, op, wide, x.rep);
		return;
	}
	if (op == 0x0f) {
		two = true;
		op = *p++;
		v = (struct vex){.rex = x.rex,
				 .prefix = x.last_rep ? x.last_rep : x.operand16 ? 0x66 : 0,
				 .wide = x.rex & REX_W,
				 .bytes = 16};
		decode_vector(uc, insn, start, p - 1, &v);
		if (insn->class != INSN_UNKNOWN)
			return;
	}
	insn->modrm_at = (uint8_t)(p - start);
	ext = *p >> 3 & 7;
	insn->class =
	    two ? two_bytes(insn, op, ext, wide, v.prefix, &imm) : one_byte(insn, op, ext, wide, &imm);
	if (insn->class == INSN_UNKNOWN)
		return;
	/* popcnt and the like share opcodes; xacquire and xrelease are only hints. */
	if (x.rep && insn->class != INSN_OPERAND && !(x.lock && insn->class == INSN_EXCHANGE)) {
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
		insn->address += (uintptr_t)uc->uc_mcontext.gregs[REG_RIP] + insn->length;
	if (!x.rex && has_register(insn) && insn->reg >= 4 && insn->reg < 8 &&
	    (insn->class == INSN_LOAD ? insn->to_size : insn->size) == 1) {
		insn->high = true;
		insn->reg -= 4;
	}
}
