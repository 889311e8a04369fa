/* SPDX-License-Identifier: BSD-2-Clause */
/* opcodes.c: the table but for vectors, after the Intel manual, volume 2, appendix A; and an instruction taken apart. */
#include "shim/exposed/x86/opcodes.h"

#include <stddef.h>

#include "shim/exposed/x86/sizes.h"
#include "shim/exposed/x86/vectors.h"

#define PLAIN(imm)                {FORM_PLAIN, imm, 0, 0, 0, 0}
#define RELATIVE(form, imm)       {form, imm, 0, 0, 0, 0}
#define MODRM(imm)                {FORM_MODRM, imm, 0, 0, 0, 0}
#define BY(form, class)           {form, 0, class, QWORD, 0, 0}
#define ADDRESS                   {FORM_MODRM, 0, 0, 0, OPCODE_ADDRESS, 0}
#define EXCHANGE(size, imm)       {FORM_MODRM, imm, INSN_EXCHANGE, size, 0, 0}
#define READ(size, imm)           {FORM_MODRM, imm, INSN_OPERAND, size, OPCODE_ALWAYS, 0}
#define WRITE(size, flags)        {FORM_MODRM, 0, INSN_WRITE, size, flags, 0}
#define LOAD(size, flags)         {FORM_MODRM, 0, INSN_LOAD, size, flags, 0}
#define STORE(size, imm)          {FORM_MODRM, imm, INSN_STORE, size, 0, 0}
#define COMPARE(size, imm, flags) {FORM_MODRM, imm, INSN_COMPARE, size, flags, 0}
#define STRING(size)              {FORM_UNKNOWN, 0, INSN_STRING, size, 0, 0}
#define GROUP(n)                  {FORM_GROUP, 0, 0, n, 0, 0}
#define PREFIX                    {FORM_PREFIX, 0, 0, 0, 0, 0}

enum group_number {
	GROUP_1B, GROUP_1Z, GROUP_1S, GROUP_2B, GROUP_2V, GROUP_2B1, GROUP_2V1, GROUP_3B, GROUP_3V,
	GROUP_4, GROUP_5, GROUP_8, GROUP_9, GROUP_11B, GROUP_11V, GROUP_15,
	GROUP_POP, GROUP_X87_1, GROUP_X87_3, GROUP_X87_5, GROUP_X87_7,
};

static const struct opcode groups[][8] = {
    [GROUP_1B] = {[0 ... 6] = EXCHANGE(BYTE, IMMEDIATE_1), COMPARE(BYTE, IMMEDIATE_1, 0)},
    [GROUP_1Z] = {[0 ... 6] = EXCHANGE(V, IMMEDIATE_Z), COMPARE(V, IMMEDIATE_Z, 0)},
    [GROUP_1S] = {[0 ... 6] = EXCHANGE(V, IMMEDIATE_1), COMPARE(V, IMMEDIATE_1, 0)},
    /* shifts */
    [GROUP_2B] = {[0 ... 7] = EXCHANGE(BYTE, IMMEDIATE_1)},
    [GROUP_2V] = {[0 ... 7] = EXCHANGE(V, IMMEDIATE_1)},
    [GROUP_2B1] = {[0 ... 7] = EXCHANGE(BYTE, 0)},
    [GROUP_2V1] = {[0 ... 7] = EXCHANGE(V, 0)},
    /* test, not, neg, mul, imul; a division's exception is the program's */
    [GROUP_3B] = {[0 ... 1] = COMPARE(BYTE, IMMEDIATE_1, OPCODE_TEST), [2 ... 3] = EXCHANGE(BYTE, 0),
		  [4 ... 5] = READ(BYTE, 0), [6 ... 7] = MODRM(0)},
    [GROUP_3V] = {[0 ... 1] = COMPARE(V, IMMEDIATE_Z, OPCODE_TEST), [2 ... 3] = EXCHANGE(V, 0),
		  [4 ... 5] = READ(V, 0), [6 ... 7] = MODRM(0)},
    /* inc, dec; call and jump by a register or memory; push */
    [GROUP_4] = {[0 ... 1] = EXCHANGE(BYTE, 0)},
    [GROUP_5] = {[0 ... 1] = EXCHANGE(V, 0), [2] = BY(FORM_CALL_BY, INSN_CALL), [4] = BY(FORM_JUMP_BY, INSN_JUMP),
		 [6] = MODRM(0)},
    /* bt, bts, btr, btc */
    [GROUP_8] = {[4] = READ(V, IMMEDIATE_1), [5 ... 7] = EXCHANGE(V, IMMEDIATE_1)},
    /* cmpxchg8b, cmpxchg16b */
    [GROUP_9] = {[1] = EXCHANGE(Q_OR_O, 0)},
    [GROUP_11B] = {[0] = STORE(BYTE, IMMEDIATE_1)},
    [GROUP_11V] = {[0] = STORE(V, IMMEDIATE_Z)},
    /* stmxcsr; lfence, mfence, sfence: beside reads of the time-stamp counter */
    [GROUP_15] = {[3] = WRITE(DWORD, 0), [5 ... 7] = MODRM(0)},
    [GROUP_POP] = {[0] = EXCHANGE(STACK, 0)},
    /* fst, fstp, fnstcw; fist, fistp, fisttp; fnstsw; fbstp */
    [GROUP_X87_1] = {[2 ... 3] = WRITE(DWORD, OPCODE_SIGNALS), [7] = WRITE(WORD, 0)},
    [GROUP_X87_3] = {[1 ... 3] = WRITE(DWORD, OPCODE_SIGNALS), [7] = WRITE(TBYTE, OPCODE_SIGNALS)},
    [GROUP_X87_5] = {[1 ... 3] = WRITE(QWORD, OPCODE_SIGNALS), [7] = WRITE(WORD, 0)},
    [GROUP_X87_7] = {[1 ... 3] = WRITE(WORD, OPCODE_SIGNALS), [6] = WRITE(TBYTE, OPCODE_SIGNALS), [7] = WRITE(QWORD, OPCODE_SIGNALS)},
};

/* add, or, adc, sbb, and, sub, xor */
#define ARITHMETIC(op) \
	[(op) + 0] = EXCHANGE(BYTE, 0), [(op) + 1] = EXCHANGE(V, 0), [(op) + 2] = READ(BYTE, 0), \
	[(op) + 3] = READ(V, 0), [(op) + 4] = PLAIN(IMMEDIATE_1), [(op) + 5] = PLAIN(IMMEDIATE_Z)

static const struct opcode one_byte[256] = {
    ARITHMETIC(0x00), ARITHMETIC(0x08), ARITHMETIC(0x10), ARITHMETIC(0x18),
    ARITHMETIC(0x20), ARITHMETIC(0x28), ARITHMETIC(0x30),
    [0x38] = COMPARE(BYTE, 0, 0), COMPARE(V, 0, 0), COMPARE(BYTE, 0, OPCODE_REVERSED), COMPARE(V, 0, OPCODE_REVERSED),
    PLAIN(IMMEDIATE_1), PLAIN(IMMEDIATE_Z),
    [0x50 ... 0x5f] = PLAIN(0), /* push, pop */
    [0x63] = LOAD(DWORD, OPCODE_SIGN | OPCODE_EXTENDS),
    [0x68] = PLAIN(IMMEDIATE_Z), READ(V, IMMEDIATE_Z), PLAIN(IMMEDIATE_1), READ(V, IMMEDIATE_1), /* push, imul */
    [0x70 ... 0x7f] = RELATIVE(FORM_BRANCH, IMMEDIATE_1),
    [0x80] = GROUP(GROUP_1B), GROUP(GROUP_1Z), {0}, GROUP(GROUP_1S),
    [0x84] = COMPARE(BYTE, 0, OPCODE_TEST), COMPARE(V, 0, OPCODE_TEST), EXCHANGE(BYTE, 0), EXCHANGE(V, 0), /* xchg */
    [0x88] = STORE(BYTE, 0), STORE(V, 0), LOAD(BYTE, 0), LOAD(V, 0),
    [0x8c] = EXCHANGE(WORD, 0), /* mov of a segment register */
    [0x8d] = ADDRESS, [POP] = GROUP(GROUP_POP), /* lea; pop to memory */
    [0x90 ... 0x99] = PLAIN(0), /* xchg with rax, cwde, cdq */
    [0xa4] = STRING(BYTE), STRING(V), [0xaa] = STRING(BYTE), STRING(V),
    [0xa8] = PLAIN(IMMEDIATE_1), PLAIN(IMMEDIATE_Z), /* test */
    [0xb0 ... 0xb7] = PLAIN(IMMEDIATE_1), [0xb8 ... 0xbf] = PLAIN(IMMEDIATE_V), /* mov */
    [0xc0] = GROUP(GROUP_2B), GROUP(GROUP_2V),
    [0xc3] = {FORM_RETURN, 0, 0, 0, 0, 0},
    [0xc6] = GROUP(GROUP_11B), GROUP(GROUP_11V),
    [0xc9] = PLAIN(0), /* leave */
    [0xd0] = GROUP(GROUP_2B1), GROUP(GROUP_2V1), GROUP(GROUP_2B1), GROUP(GROUP_2V1),
    [0xd9] = GROUP(GROUP_X87_1), [0xdb] = GROUP(GROUP_X87_3), [0xdd] = GROUP(GROUP_X87_5), [0xdf] = GROUP(GROUP_X87_7),
    [0xe8] = RELATIVE(FORM_CALL, IMMEDIATE_4), RELATIVE(FORM_JUMP, IMMEDIATE_4), {0}, RELATIVE(FORM_JUMP, IMMEDIATE_1),
    [0xf6] = GROUP(GROUP_3B), GROUP(GROUP_3V), [0xfe] = GROUP(GROUP_4), GROUP(GROUP_5),
    /* es, cs, ss and ds have no meaning in 64-bit mode.  67, another size of address, is not known. */
    [0x26] = PREFIX, [0x2e] = PREFIX, [0x36] = PREFIX, [0x3e] = PREFIX, [0x64 ... 0x66] = PREFIX,
    [0xf0] = PREFIX, [0xf2 ... 0xf3] = PREFIX,
};

/* Behind 0f, in the legacy encoding, whatever the prefix: those of general registers. */
static const struct opcode two_bytes[256] = {
    [0x1e] = MODRM(0), ADDRESS, /* nops */
    [0x40 ... 0x4f] = READ(V, 0), /* cmov */
    [0x80 ... 0x8f] = RELATIVE(FORM_BRANCH, IMMEDIATE_4),
    [0x90 ... 0x9f] = EXCHANGE(BYTE, 0), /* set */
    /* bt, bts, btr, btc with a register may mean memory elsewhere than at their operand: encoding_chooses_bit(). */
    [0xa3] = MODRM(0), EXCHANGE(V, IMMEDIATE_1), EXCHANGE(V, 0), /* shld */
    [0xab] = EXCHANGE(V, 0), EXCHANGE(V, IMMEDIATE_1), EXCHANGE(V, 0), /* shrd */
    [0xae] = GROUP(GROUP_15), READ(V, 0), /* imul */
    [0xb0] = EXCHANGE(BYTE, 0), EXCHANGE(V, 0), /* cmpxchg */
    [0xb3] = EXCHANGE(V, 0), [0xbb] = EXCHANGE(V, 0),
    [0xb6] = LOAD(BYTE, OPCODE_EXTENDS), LOAD(WORD, OPCODE_EXTENDS), /* movzx */
    [0xb8] = READ(V, 0), /* popcnt */
    [0xba] = GROUP(GROUP_8),
    [0xbc] = READ(V, 0), READ(V, 0), /* bsf, bsr */
    [0xbe] = LOAD(BYTE, OPCODE_SIGN | OPCODE_EXTENDS), LOAD(WORD, OPCODE_SIGN | OPCODE_EXTENDS), /* movsx */
    [0xc0] = EXCHANGE(BYTE, 0), EXCHANGE(V, 0), /* xadd */
    [0xc3] = STORE(D_OR_Q, 0), /* movnti */
    [0xc7] = GROUP(GROUP_9),
};

#define VZEROUPPER 0x77

/* The row, or one that says no more than the instruction's form. */
static void find_vector(struct encoding *e, unsigned int prefix)
{
	const struct opcode *row = vector_row(e->map, e->opcode, prefix);

	e->op = row->encodings & e->kind ? *row : (struct opcode){.form = FORM_MODRM};
	e->op.immediate = vector_has_immediate(e->map, e->opcode) ? IMMEDIATE_1 : NO_IMMEDIATE;
	if (e->kind == ENCODED_LEGACY && e->op.class == INSN_OPERAND && encoding_operand_size(e) == 16 &&
	    !(e->op.flags & OPCODE_UNALIGNED))
		e->op.flags |= OPCODE_ALIGNED;
}

/* ------------------------------------------------------- bytes in front of it */

static void take_prefix(uint8_t prefix, struct encoding *e)
{
	switch (prefix) {
	case PREFIX_OPERAND16:
		e->operand16 = true;
		break;
	case PREFIX_LOCK:
		e->lock = true;
		break;
	case PREFIX_REPNE:
	case PREFIX_REP:
		e->repeat = prefix;
		break;
	case PREFIX_FS:
	case PREFIX_GS:
		e->segment = prefix;
		break;
	}
}

/* Where the opcode, or REX, is; NULL if there are too many. */
static const uint8_t *take_prefixes(const uint8_t *p, struct encoding *e)
{
	const uint8_t *start = p;

	for (; one_byte[*p].form == FORM_PREFIX; p++) {
		take_prefix(*p, e);
		e->prefixed = true;
		if (p - start >= INSN_BYTES_MAX - 1)
			return NULL;
	}
	return p;
}

/* Behind the prefix, at the opcode; its column in the table.  NULL: not known. */
static const uint8_t *take_vex(const uint8_t *p, struct encoding *e, unsigned int *prefix)
{
	uint8_t w;

	e->kind = *p == PREFIX_EVEX ? ENCODED_EVEX : ENCODED_VEX;
	if (*p == PREFIX_VEX2) {
		e->rex = p[1] & 0x80 ? 0 : REX_R;
		e->map = 1;
		w = p[1] & 0x7f;
		p += 2;
	} else {
		e->rex = (uint8_t)(~p[1] >> 5 & 7);
		e->map = p[1] & 0x1f;
		w = p[2];
		if (e->kind == ENCODED_EVEX) {
			e->high = p[1] & 0x10 ? 0 : 16;
			e->map = p[1] & 0x0f;
			e->evex = p[3];
			if (!(w & 4))
				return NULL;
		}
		p += e->kind == ENCODED_EVEX ? 4 : 3;
	}
	e->rex |= w & 0x80 ? REX_W : 0;
	*prefix = e->prefix = w & 3;
	e->vector = e->kind == ENCODED_EVEX ? (uint8_t)(16 << (e->evex >> 5 & 3)) : w & 4 ? 32 : 16;
	return e->map >= 1 && e->map <= 3 ? p : NULL;
}

static const uint8_t *take_escape(const uint8_t *p, struct encoding *e)
{
	if (*p != 0x0f)
		return p;
	p++;
	e->map = *p == 0x38 ? 2 : *p == 0x3a ? 3 : 1;
	return e->map > 1 ? p + 1 : p;
}

static unsigned int prefix_column(const struct encoding *e)
{
	return e->repeat == PREFIX_REPNE ? 3 : e->repeat == PREFIX_REP ? 2 : e->operand16 ? 1 : 0;
}

/* p: behind the opcode. */
static void find_legacy(const uint8_t *p, struct encoding *e)
{
	e->vector = 16;
	if (e->map >= 2) {
		find_vector(e, prefix_column(e));
		/* In these maps not every opcode is a vector's, and one that is not need not have this form. */
		if (e->op.class == INSN_UNKNOWN)
			e->op.form = FORM_UNKNOWN;
		return;
	}
	if (e->map == 1 && is_vector_0f(e->opcode)) {
		find_vector(e, prefix_column(e));
		return;
	}
	e->op = e->map ? two_bytes[e->opcode] : one_byte[e->opcode];
	if (e->op.form == FORM_GROUP)
		e->op = groups[e->op.size][*p >> 3 & 7];
	/* Not popcnt. */
	if (e->map && e->opcode == 0xb8 && e->repeat != PREFIX_REP)
		e->op = (struct opcode){0};
}

/* --------------------------------------------------------------- behind it */

static uint8_t immediate_size(const struct encoding *e)
{
	uint8_t word;

	if (e->op.immediate == NO_IMMEDIATE)
		return 0;
	word = encoding_word(e);
	switch (e->op.immediate) {
	case IMMEDIATE_1:
		return 1;
	case IMMEDIATE_4:
		return 4;
	case IMMEDIATE_Z:
		return word == 8 ? 4 : word;
	case IMMEDIATE_V:
		return word;
	}
	return 0;
}

/* Returns the end of the displacement. */
static const uint8_t *take_modrm(const uint8_t *code, const uint8_t *p, struct encoding *e)
{
	uint8_t mod = *p >> 6, base = *p & 7;

	e->modrm_at = (uint8_t)(p++ - code);
	if (mod == 3) {
		e->displacement_at = (uint8_t)(p - code);
		return p;
	}
	e->has_memory = true;
	e->relative = !mod && base == 5;
	e->has_sib = base == 4;
	if (e->has_sib)
		base = *p++ & 7;
	e->displacement_at = (uint8_t)(p - code);
	e->displacement_bytes = mod == 1 ? 1 : mod == 2 || base == 5 ? 4 : 0;
	return p + e->displacement_bytes;
}

bool encoding_of(const uint8_t *code, struct encoding *e)
{
	unsigned int prefix;
	const uint8_t *p;

	*e = (struct encoding){.kind = ENCODED_LEGACY};
	p = take_prefixes(code, e);
	if (!p)
		return false;
	if (*p == PREFIX_VEX2 || *p == PREFIX_VEX3 || *p == PREFIX_EVEX) {
		if (e->prefixed || !(p = take_vex(p, e, &prefix)))
			return false;
		e->opcode = *p++;
		find_vector(e, prefix);
		if (e->map == 1 && e->opcode == VZEROUPPER && e->kind == ENCODED_VEX)
			e->op.form = FORM_PLAIN;
		else if (e->map == 1 && !is_vex_0f(e->opcode))
			e->op.form = FORM_UNKNOWN;
	} else {
		if ((*p & 0xf0) == 0x40) {
			e->has_rex = true;
			e->rex_at = (uint8_t)(p - code);
			e->rex = *p++ & 15;
		}
		p = take_escape(p, e);
		e->opcode = *p++;
		find_legacy(p, e);
	}
	if (e->op.form == FORM_PREFIX || (e->op.form == FORM_UNKNOWN && e->op.class == INSN_UNKNOWN))
		return false;
	if (e->op.form == FORM_MODRM || e->op.form == FORM_CALL_BY || e->op.form == FORM_JUMP_BY)
		p = take_modrm(code, p, e);
	e->immediate_at = (uint8_t)(p - code);
	e->immediate_bytes = immediate_size(e);
	e->length = (uint8_t)(e->immediate_at + e->immediate_bytes);
	return e->length <= INSN_BYTES_MAX;
}

uint8_t encoding_operand_size(const struct encoding *e)
{
	static const uint8_t fixed[] = {[BYTE] = 1, [WORD] = 2, [DWORD] = 4, [QWORD] = 8, [OWORD] = 16, [YWORD] = 32, [TBYTE] = 10};
	bool w = e->rex & REX_W;

	if (e->op.size == V)
		return encoding_word(e);
	if (e->op.size <= TBYTE)
		return fixed[e->op.size];
	switch (e->op.size) {
	case STACK:
		return e->operand16 && !w ? 2 : 8;
	case D_OR_Q:
		return w ? 8 : 4;
	case Q_OR_O:
		return w ? 16 : 8;
	case MASK_W:
		return w ? 8 : 2;
	case MASK_B:
		return w ? 4 : 1;
	case FULL:
		return e->vector <= 64 ? e->vector : 0;
	case HALF:
		return e->vector / 2;
	case QUARTER:
		return e->vector / 4;
	case EIGHTH:
		return e->vector / 8;
	case FULL_BUT_128:
		return e->vector == 16 ? 8 : e->vector;
	}
	return 0;
}

/* vmovdqu8 and vmovdqu16 have the prefix f2; others have elements of 4 or 8 bytes, but for vpcompressb and vpcompressw. */
uint8_t encoding_element(const struct encoding *e)
{
	const uint8_t size = e->rex & REX_W ? 8 : 4;

	if (e->map == 1 && e->opcode == MOVDQ_STORE && e->prefix == 3)
		return size / 4;
	return e->map == 2 && e->opcode == VPCOMPRESSB ? size / 4 : size;
}

/* EVEX's displacement of one byte counts in operands, or elements. */
static uintptr_t displacement_of(const uint8_t *code, const struct encoding *e)
{
	intptr_t d = signed_at(code + e->displacement_at, e->displacement_bytes);
	bool by_element = e->op.class == INSN_WRITE && e->op.flags & OPCODE_ELEMENTS;

	if (e->kind != ENCODED_EVEX || e->displacement_bytes != 1)
		return (uintptr_t)d;
	return (uintptr_t)(d * (by_element ? encoding_element(e) : encoding_operand_size(e)));
}

bool encoding_operand(const uint8_t *code, uintptr_t pc, const struct encoding *e, struct operand *o)
{
	const uint8_t *modrm = code + e->modrm_at;
	uint8_t base = *modrm & 7;

	*o = (struct operand){.base = NO_REGISTER, .index = NO_REGISTER};
	if (!e->has_memory || e->segment)
		return false;
	o->displacement = displacement_of(code, e);
	if (e->relative) {
		o->displacement += pc + e->length;
		return true;
	}
	if (e->has_sib) {
		o->index = (uint8_t)((modrm[1] >> 3 & 7) | (e->rex & REX_X) << 2);
		o->shift = modrm[1] >> 6;
		base = modrm[1] & 7;
		if (o->index == 4)
			o->index = NO_REGISTER;
		if (base == 5 && *modrm >> 6 == 0)
			return true;
	}
	o->base = (uint8_t)(base | (e->rex & REX_B) << 3);
	return true;
}
