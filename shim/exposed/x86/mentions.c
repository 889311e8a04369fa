/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/x86/mentions.h"

#define AX 1u
#define CX 2u
#define DX 4u
#define SP (1u << REGISTER_SP)
#define BP 32u
#define SI 64u
#define DI 128u

/* In the opcode's lowest three bits. */
static uint32_t in_opcode(const struct encoding *e)
{
	uint32_t bit = 1u << ((e->opcode & 7) | (e->rex & REX_B) << 3);

	if (e->kind != ENCODED_LEGACY)
		return 0;
	if (e->map == 1)
		return e->opcode >> 3 == 0xc8 >> 3 ? bit : 0; /* bswap */
	switch (e->opcode >> 3) {
	case 0x50 >> 3: /* push, pop */
	case 0x58 >> 3:
		return bit | SP;
	case 0x90 >> 3: /* xchg; nop is one, too */
		return e->opcode == 0x90 && !(e->rex & REX_B) ? 0 : bit | AX;
	case 0xb0 >> 3: /* mov */
	case 0xb8 >> 3:
		return bit;
	}
	return 0;
}

static uint32_t implied_of_one_byte(uint8_t opcode)
{
	if (opcode < 0x40 && (opcode & 7) >= 4) /* add and so on, with an immediate */
		return AX;
	switch (opcode) {
	case 0x68:
	case 0x6a: /* push */
	case POP:
	case 0xc3:
	case 0xe8:
		return SP;
	case 0xc9: /* leave */
		return SP | BP;
	case 0x98:
	case 0xa8:
	case 0xa9: /* test */
		return AX;
	case 0x99: /* cdq */
	case 0xf6:
	case 0xf7: /* mul, div */
		return AX | DX;
	case 0xa4:
	case 0xa5:
		return SI | DI | CX;
	case 0xaa:
	case 0xab:
		return AX | DI | CX;
	case 0xd2:
	case 0xd3: /* shifts */
		return CX;
	}
	return 0;
}

static uint32_t implied(const struct encoding *e)
{
	if (e->kind != ENCODED_LEGACY)
		return 0;
	if (!e->map)
		return implied_of_one_byte(e->opcode);
	if (e->map != 1)
		return 0;
	if (e->opcode == 0xb0 || e->opcode == 0xb1) /* cmpxchg */
		return AX;
	if (e->opcode == 0xa5 || e->opcode == 0xad) /* shld, shrd */
		return CX;
	return e->opcode == 0xc7 ? AX | CX | DX | 8 : 0; /* cmpxchg16b */
}

/* Is the register field of ModRM a part of the opcode? */
static bool extends_opcode(const struct encoding *e)
{
	uint8_t op = e->opcode;

	if (e->map)
		return e->map == 1 && (op == 0xba || op == 0xc7 || op == 0x1e || op == 0x1f || (op & 0xf0) == 0x90);
	return (op & 0xfc) == 0x80 || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0xc7 || (op & 0xfc) == 0xd0 || op >= 0xf6;
}

static uint32_t in_modrm(const uint8_t *code, const struct encoding *e)
{
	uint8_t modrm = code[e->modrm_at];
	uint32_t bits = 0;
	struct encoding plain = *e;
	struct operand o;

	plain.segment = 0;
	if (encoding_operand(code, 0, &plain, &o)) {
		if (o.base != NO_REGISTER)
			bits |= 1u << o.base;
		if (o.index != NO_REGISTER)
			bits |= 1u << o.index;
	} else if (!e->op.encodings) {
		bits |= 1u << ((modrm & 7) | (e->rex & REX_B) << 3);
	}
	if (!e->op.encodings && !extends_opcode(e))
		bits |= 1u << ((modrm >> 3 & 7) | (e->rex & REX_R) << 1);
	return bits;
}

/* These move between vector and general registers. */
static bool crosses(const struct encoding *e)
{
	uint8_t op = e->opcode;

	return e->op.encodings && e->map == 1 &&
	       (op == 0x2a || op == 0x2c || op == 0x2d || op == 0x50 || op == 0x6e || op == 0x7e || op == 0xc4 || op == 0xc5 ||
		op == 0xd7);
}

uint32_t mentions_of(const uint8_t *code)
{
	struct encoding e;

	if (!encoding_of(code, &e) || (e.op.encodings && (e.map > 1 || e.kind != ENCODED_LEGACY)))
		return MENTIONS_ALL;
	if (crosses(&e))
		e.op.encodings = 0; /* both of its numbers count as general ones */
	return in_opcode(&e) | implied(&e) | (e.modrm_at ? in_modrm(code, &e) : 0);
}
