/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/x86/decode.h"

#include <stddef.h>

#include "shim/exposed/x86/vector.h"

static const int greg_of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				REG_R12, REG_R13, REG_R14, REG_R15};

int decode_greg(uint8_t reg)
{
	return greg_of[reg];
}

NO_VECTORS void decode_registers_to(greg_t *g, const uint64_t r[16], uint64_t flags)
{
	for (uint8_t i = 0; i < 16; i++)
		g[greg_of[i]] = (greg_t)r[i];
	g[REG_EFL] = (greg_t)flags;
}

NO_VECTORS void decode_registers_from(const greg_t *g, uint64_t r[16], uint64_t *flags)
{
	for (uint8_t i = 0; i < 16; i++)
		r[i] = (uint64_t)g[greg_of[i]];
	*flags = (uint64_t)g[REG_EFL];
}

greg_t *decode_register(ucontext_t *uc, uint8_t reg)
{
	return &uc->uc_mcontext.gregs[greg_of[reg]];
}

static bool is_move_or_compare(const struct insn *i)
{
	return i->class == INSN_LOAD || i->class == INSN_STORE || i->class == INSN_COMPARE;
}

static bool is_masked_store(const struct insn *i)
{
	return i->class == INSN_VECTOR_STORE || i->class == INSN_WRITE;
}

/*
 * Do the prefixes leave the instruction what the table says it is?  Behind rep a move is another instruction, if any;
 * before an exchange with lock it is only a hint (xacquire).  Instructions of vectors have it as a part of their opcode.
 */
static bool has_known_prefixes(const struct insn *i)
{
	const struct encoding *e = &i->encoding;

	if (is_transfer(i))
		return !e->prefixed;
	if (e->kind == ENCODED_LEGACY && !e->repeat)
		return true;
	if (e->kind == ENCODED_EVEX) {
		if (e->evex & EVEX_BROADCAST) /* of which a short displacement counts in elements */
			return false;
		return i->class == INSN_OPERAND || (e->evex & (EVEX_ZERO | (is_masked_store(i) ? 0 : EVEX_MASK) | EVEX_NO_V)) == EVEX_NO_V;
	}
	if (e->kind == ENCODED_VEX || is_vector_move(i))
		return true;
	return i->class == INSN_OPERAND || (i->class == INSN_EXCHANGE && e->lock);
}

#define DIRECTION_FLAG 0x400

/* Backwards it is not known. */
static void string_address(const greg_t *g, struct insn *insn)
{
	if (g[REG_EFL] & DIRECTION_FLAG) {
		insn->class = INSN_UNKNOWN;
		return;
	}
	insn->address = (uintptr_t)g[REG_RDI];
	insn->source = insn->encoding.opcode < 0xa6 ? (uintptr_t)g[REG_RSI] : 0;
}

/* Without REX, the numbers 4 to 7 of a byte register mean ah, ch, dh and bh. */
static void find_register(struct insn *insn, uint8_t modrm)
{
	const struct encoding *e = &insn->encoding;

	insn->reg = (uint8_t)((modrm >> 3 & 7) | (e->rex & REX_R) << 1);
	if (is_vector_move(insn))
		insn->reg |= e->high;
	if (e->has_rex || insn->has_immediate || !is_move_or_compare(insn) || insn->reg < 4 ||
	    (insn->class == INSN_LOAD ? insn->to_size : insn->size) != 1)
		return;
	insn->high = true;
	insn->reg -= 4;
}

static void find_masked_size(const ucontext_t *uc, struct insn *insn)
{
	uint64_t mask;
	uint8_t n = 0;

	if (!vector_mask(uc, insn->mask, &mask)) {
		insn->class = INSN_UNKNOWN;
		return;
	}
	if (insn->size / insn->element < 64)
		mask &= (1ull << insn->size / insn->element) - 1;
	for (; mask & 1; mask >>= 1)
		n++;
	if (mask || !n)
		insn->class = INSN_WRITE;
	else
		insn->size = n * insn->element;
}

/* How far from its operand the word with the bit is. */
static uintptr_t distance_of_bit(greg_t reg, uint8_t size)
{
	const int64_t bit = size == 2 ? (int16_t)reg : size == 4 ? (int32_t)reg : reg;

	return (uintptr_t)((bit >> (size == 2 ? 4 : size == 4 ? 5 : 6)) * size);
}

void decode_address(const ucontext_t *uc, struct insn *insn)
{
	const greg_t *g = uc->uc_mcontext.gregs;
	const struct operand *o = &insn->operand;
	uintptr_t a = o->displacement;

	if (insn->class == INSN_UNKNOWN)
		return;
	if (insn->class == INSN_STRING) {
		string_address(g, insn);
		return;
	}
	if (o->base != NO_REGISTER)
		a += (uintptr_t)g[greg_of[o->base]];
	if (o->index != NO_REGISTER)
		a += (uintptr_t)g[greg_of[o->index]] << o->shift;
	if (encoding_chooses_bit(&insn->encoding))
		a += distance_of_bit(g[greg_of[insn->reg]], insn->size);
	/* The stack pointer is what it is afterwards. */
	if (encoding_pops(&insn->encoding) && o->base == REGISTER_SP)
		a += insn->size;
	insn->address = a;
	if (insn->mask)
		find_masked_size(uc, insn);
}

/* An immediate chooses one of the equal parts of the register. */
static uint8_t first_byte(const struct insn *insn)
{
	const struct encoding *e = &insn->encoding;

	if (e->map == 1)
		return e->opcode == MOVHPS ? 8 : 0;
	return (uint8_t)((insn->immediate & (e->vector / insn->size - 1)) * insn->size);
}

void decode_bytes(const uint8_t *code, uintptr_t pc, struct insn *insn)
{
	struct encoding *e = &insn->encoding;
	uint8_t flags;

	memset(insn, 0, offsetof(struct insn, operand));
	if (!encoding_of(code, e) || e->segment)
		return;
	flags = e->op.flags;
	insn->class = e->op.class;
	insn->length = e->length;
	insn->size = encoding_operand_size(e);
	if (insn->class == INSN_STRING) {
		insn->repeat = e->repeat;
		return;
	}
	if (!insn->size || !has_known_prefixes(insn) || !encoding_operand(code, pc, e, &insn->operand)) {
		insn->class = INSN_UNKNOWN;
		return;
	}
	insn->to_size = flags & OPCODE_EXTENDS ? encoding_word(e) : insn->size;
	insn->extends_sign = flags & OPCODE_SIGN;
	insn->test = flags & OPCODE_TEST;
	insn->reversed = flags & OPCODE_REVERSED;
	insn->always = flags & OPCODE_ALWAYS && !(e->kind == ENCODED_EVEX && e->evex & EVEX_MASK);
	insn->signals = insn->class == INSN_OPERAND && flags & OPCODE_SIGNALS;
	insn->align = flags & OPCODE_ALIGNED ? insn->size - 1 : 0;
	insn->vex = e->kind != ENCODED_LEGACY;
	insn->has_immediate = e->immediate_bytes;
	insn->immediate = signed_at(code + e->immediate_at, e->immediate_bytes);
	if (insn->class == INSN_VECTOR_STORE)
		insn->from = first_byte(insn);
	if (insn->class == INSN_VECTOR_STORE && e->kind == ENCODED_EVEX) {
		insn->mask = e->evex & EVEX_MASK;
		insn->element = encoding_element(e);
	}
	find_register(insn, code[e->modrm_at]);
}

/* Is there a register in the instruction's ModRM byte, not a part of the opcode? */
static bool names_register(const struct encoding *e)
{
	if (!e->map)
		return e->opcode < 0x80 || (e->opcode & 0xfe) == 0x86; /* add to xor, xchg */
	if (e->map == 2)
		return true; /* movbe */
	return e->opcode >= 0xa3 && e->opcode <= 0xc1 && e->opcode != 0xba; /* bts to xadd, but for their group */
}

bool decode_names_sp(const struct insn *insn)
{
	const struct encoding *e = &insn->encoding;

	return insn->reg == REGISTER_SP && names_register(e) && (insn->size > 1 || e->has_rex);
}
