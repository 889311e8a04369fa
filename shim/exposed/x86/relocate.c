/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relocate.c: after the Intel manual, volume 2, appendix A.
 *
 * Only what compilers put next to a load or store is known here: whatever is not, is left
 * where it is.  Copies differ from their originals where these count from their own address:
 * operands relative to RIP, and branches.
 */
#include "shim/exposed/x86/relocate.h"

#include <string.h>

#include "shim/exposed/x86/decode.h"

enum kind {
	OTHER,   /* not to be copied */
	PLAIN,
	OPERAND, /* has a ModRM byte */
	BRANCH,  /* conditional */
	JUMP,
	CALL,
	RETURN,
};

struct step {
	enum kind kind;
	uint8_t length;
	uint8_t modrm_at; /* OPERAND */
	uint8_t condition; /* BRANCH */
	bool relative;    /* OPERAND: to RIP, by the four bytes behind ModRM */
	int32_t distance; /* BRANCH, JUMP, CALL: from its end */
};

/* --------------------------------------------------------------- lengths */

/* Bytes of ModRM, SIB and displacement. */
static uint8_t operand_bytes(const uint8_t *p)
{
	uint8_t mod = *p >> 6, rm = *p & 7, n = 1;

	if (mod == 3)
		return 1;
	if (rm == 4) {
		n++;
		if (!mod && (p[1] & 7) == 5)
			n += 4;
	} else if (rm == 5 && !mod) {
		n += 4;
	}
	return (uint8_t)(n + (mod == 1 ? 1 : mod == 2 ? 4 : 0));
}

/* Opcodes of the first map that have an operand; of which imm is the immediate's bytes. */
static bool has_operand(uint8_t op, uint8_t ext, uint8_t imm_wide, uint8_t *imm)
{
	*imm = 0;
	if (op < 0x40)
		return (op & 7) < 4;
	switch (op) {
	case 0x80:
	case 0x83:
	case 0x6b:
	case 0xc0:
	case 0xc1:
		*imm = 1;
		return true;
	case 0x69:
	case 0x81:
		*imm = imm_wide;
		return true;
	case 0xc6:
	case 0xc7:
		*imm = op & 1 ? imm_wide : 1;
		return ext == 0;
	case 0xf6:
	case 0xf7:
		*imm = ext > 1 ? 0 : op & 1 ? imm_wide : 1;
		return true;
	case 0xfe:
		return ext < 2;
	case 0xff:
		return ext < 2 || ext == 6;
	case 0x8c:
	case 0x8e:
	case 0x8f:
		return false;
	}
	return op == 0x63 || (op >= 0x84 && op <= 0x8d) || (op >= 0xd0 && op <= 0xd3);
}

/* Those of the first map that have none; how many bytes of immediate.  -1: not known. */
static int plain_immediate(uint8_t op, bool wide, uint8_t imm_wide)
{
	if (op < 0x40)
		return (op & 7) == 4 ? 1 : (op & 7) == 5 ? imm_wide : -1;
	if ((op >= 0x50 && op < 0x60) || (op >= 0x90 && op < 0x9a) || op == 0xc9)
		return 0;
	if (op == 0x6a || op == 0xa8 || (op >= 0xb0 && op < 0xb8))
		return 1;
	if (op == 0x68 || op == 0xa9)
		return imm_wide;
	if (op >= 0xb8 && op < 0xc0)
		return wide ? 8 : imm_wide;
	return -1;
}

/* Of the second map, behind 0f. */
static bool has_operand_two(uint8_t op, uint8_t *imm)
{
	*imm = op == 0x70 || op == 0xa4 || op == 0xac || op == 0xba || op == 0xc2 || op == 0xc4 ||
	       op == 0xc5 || op == 0xc6;
	return op == 0x1e || op == 0x1f || (op >= 0x10 && op <= 0x17) || (op >= 0x28 && op <= 0x2f) ||
	       (op >= 0x40 && op <= 0x70) || (op >= 0x74 && op <= 0x76) || op == 0x7e || op == 0x7f ||
	       (op >= 0x90 && op <= 0x9f) || op == 0xa3 || op == 0xa4 || op == 0xa5 ||
	       (op >= 0xab && op <= 0xad) || (op >= 0xaf && op <= 0xb1) || op == 0xb3 ||
	       (op >= 0xb6 && op <= 0xc2 && op != 0xb9) || (op >= 0xc4 && op <= 0xc6) ||
	       (op >= 0xd0 && op <= 0xfe);
}

static void with_operand(struct step *s, const uint8_t *start, const uint8_t *modrm, uint8_t imm)
{
	s->kind = OPERAND;
	s->modrm_at = (uint8_t)(modrm - start);
	s->relative = (*modrm & 0xc7) == 5;
	s->length = (uint8_t)(s->modrm_at + operand_bytes(modrm) + imm);
}

static void with_distance(struct step *s, enum kind kind, const uint8_t *start, const uint8_t *p, uint8_t bytes)
{
	s->kind = kind;
	s->distance = bytes == 1 ? (int8_t)*p : decode_disp32(p);
	s->length = (uint8_t)(p + bytes - start);
}

static void step_two(struct step *s, const uint8_t *start, const uint8_t *p)
{
	uint8_t op = *p++, imm;

	if (op >= 0x80 && op < 0x90) {
		s->condition = op & 15;
		with_distance(s, BRANCH, start, p, 4);
	} else if (has_operand_two(op, &imm)) {
		with_operand(s, start, p, imm);
	}
}

static void step_one(struct step *s, const uint8_t *start, const uint8_t *p, uint8_t rex, bool operand16)
{
	uint8_t op = *p++, imm, imm_wide = operand16 && !(rex & 8) ? 2 : 4;
	int plain;

	if (op >= 0x70 && op < 0x80) {
		s->condition = op & 15;
		with_distance(s, BRANCH, start, p, 1);
	} else if (op == 0xeb || op == 0xe9) {
		with_distance(s, JUMP, start, p, op == 0xeb ? 1 : 4);
	} else if (op == 0xe8) {
		with_distance(s, CALL, start, p, 4);
	} else if (op == 0xc3) {
		s->kind = RETURN;
		s->length = (uint8_t)(p - start);
	} else if (has_operand(op, *p >> 3 & 7, imm_wide, &imm)) {
		with_operand(s, start, p, imm);
	} else if ((plain = plain_immediate(op, rex & 8, imm_wide)) >= 0) {
		s->kind = PLAIN;
		s->length = (uint8_t)(p + plain - start);
	}
}

#define VEX_TWO   0xc5
#define VEX_THREE 0xc4
#define EVEX      0x62

/* Opcode's map, by the prefix's second byte. */
static uint8_t vex_map(const uint8_t *start)
{
	return *start == VEX_TWO ? 1 : start[1] & (*start == EVEX ? 7 : 0x1f);
}

/* VEX, EVEX: the maps' vector instructions, all with an operand. */
static void step_vex(struct step *s, const uint8_t *start)
{
	uint8_t map = vex_map(start);
	const uint8_t *p = start + (*start == VEX_TWO ? 2 : *start == VEX_THREE ? 3 : 4);
	uint8_t op = *p++;

	if (map < 1 || map > 3)
		return;
	if (map == 1 && op == 0x77 && *start != EVEX) { /* vzeroupper */
		s->kind = PLAIN;
		s->length = (uint8_t)(p - start);
		return;
	}
	with_operand(s, start, p, decode_vex_has_immediate(map, op));
}

static void step_of(const uint8_t *start, struct step *s)
{
	const uint8_t *p = start;
	bool operand16 = false, prefixed = false;
	uint8_t rex = 0;

	*s = (struct step){.kind = OTHER};
	if (*p == VEX_TWO || *p == VEX_THREE || *p == EVEX) {
		step_vex(s, start);
		return;
	}
	for (; *p == 0x66 || *p == 0xf2 || *p == 0xf3 || *p == 0x64; p++) {
		operand16 = operand16 || *p == 0x66;
		prefixed = true;
	}
	if ((*p & 0xf0) == 0x40)
		rex = *p++;
	if (*p == 0x0f)
		step_two(s, start, p + 1);
	else
		step_one(s, start, p, rex, operand16);
	/* bnd, repeated returns, branches with hints: seldom, and each its own story. */
	if (prefixed && s->kind >= BRANCH)
		s->kind = OTHER;
}

/* As of a REX prefix, what stands for it in a VEX prefix included. */
static uint8_t rex_of(const uint8_t *p)
{
	if (*p == VEX_TWO)
		return 0;
	if (*p == VEX_THREE || *p == EVEX)
		return (uint8_t)(~p[1] >> 5 & 7);
	while (*p == 0x66 || *p == 0xf2 || *p == 0xf3)
		p++;
	return (*p & 0xf0) == 0x40 ? *p : 0;
}

bool operand_of(const uint8_t *code, uintptr_t pc, const struct insn *insn, struct operand *o)
{
	struct step s;
	const uint8_t *p;
	uint8_t rex, mod, rm;

	*o = (struct operand){.base = NO_REGISTER, .index = NO_REGISTER};
	step_of(code, &s);
	if (s.kind != OPERAND || *code == 0x64)
		return false;
	rex = rex_of(code);
	p = code + s.modrm_at;
	mod = *p >> 6;
	rm = *p++ & 7;
	if (mod == 3)
		return false;
	if (s.relative) {
		o->displacement = pc + s.length + (uintptr_t)(intptr_t)decode_disp32(p);
		return true;
	}
	o->base = (uint8_t)(rm | (rex & 1) << 3);
	if (rm == 4) {
		o->index = (uint8_t)((*p >> 3 & 7) | (rex & 2) << 2);
		o->shift = *p >> 6;
		o->base = (uint8_t)((*p & 7) | (rex & 1) << 3);
		if (o->index == 4)
			o->index = NO_REGISTER;
		if ((*p & 7) == 5 && !mod) {
			o->base = NO_REGISTER;
			o->displacement = (uintptr_t)(intptr_t)decode_disp32(p + 1);
		}
		p++;
	}
	/* EVEX's of a byte counts in operands. */
	if (mod == 1)
		o->displacement = (uintptr_t)((intptr_t)(int8_t)*p * (*code == EVEX ? insn->size : 1));
	if (mod == 2)
		o->displacement = (uintptr_t)(intptr_t)decode_disp32(p);
	return true;
}

/*
 * A nop fills a gap before a place where others come, or is one that a tracer writes to (a probe of SystemTap's, a
 * function's patchable entry); endbr64 is where an indirect branch leads.
 */
static bool is_landmark(const uint8_t *p)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

	if (!memcmp(p, endbr64, sizeof(endbr64)))
		return true;
	while (*p == 0x66)
		p++;
	return *p == 0x90 || (*p == 0x0f && p[1] == 0x1f);
}

bool group_of(const uint8_t *code, struct group *g)
{
	struct step s;

	*g = (struct group){0};
	while (g->length < JUMP_BYTES) {
		step_of(code + g->length, &s);
		if (s.kind == OTHER || (g->n && is_landmark(code + g->length)))
			return false;
		g->length = (uint8_t)(g->length + s.length);
		g->at[++g->n] = g->length;
		/* What is behind it is no longer of this path. */
		if (s.kind >= JUMP)
			return g->length >= JUMP_BYTES;
		/* A branch into the midst of them would meet the jump. */
		if (s.kind == BRANCH && -s.distance < g->length && -s.distance > 0)
			return false;
	}
	return true;
}

static bool is_in_midst(const struct group *g, size_t at, size_t target)
{
	for (unsigned int k = 1; k < g->n; k++)
		if (target == at + g->at[k])
			return true;
	return false;
}

static bool is_short_branch(uint8_t op)
{
	return op >> 4 == 7 || op == 0xeb || (op >= 0xe0 && op <= 0xe3);
}

static bool is_long_branch(const uint8_t *text, size_t distance_at)
{
	if (distance_at && (text[distance_at - 1] == 0xe8 || text[distance_at - 1] == 0xe9))
		return true;
	return distance_at > 1 && text[distance_at - 2] == 0x0f && text[distance_at - 1] >> 4 == 8;
}

/*
 * Any four bytes could be a branch's distance: few lead there, and whether they are one is asked of these.  (Asked
 * the other way round, the search took 0.9 ms, not 0.2, and a program's start with a dozen jumps a tenth of
 * an emulated second.)
 */
static bool is_reached_by_long(const uint8_t *text, size_t n, size_t at, const struct group *g)
{
	for (size_t i = 0; i + 4 <= n; i++) {
		size_t target = i + 4 + (size_t)decode_disp32(text + i);

		if (target - at < JUMP_BYTES && is_in_midst(g, at, target) && is_long_branch(text, i))
			return true;
	}
	return false;
}

/* As far as a byte's distance leads, to the last place of the midst and from the branch's end. */
#define SHORT (128 + JUMP_BYTES + 2)

static bool is_reached_by_short(const uint8_t *text, size_t n, size_t at, const struct group *g)
{
	size_t end = n - at > SHORT ? at + SHORT : n;

	for (size_t i = at > SHORT ? at - SHORT : 0; i + 2 <= end; i++)
		if (is_short_branch(text[i]) && is_in_midst(g, at, i + 2 + (size_t)(int8_t)text[i + 1]))
			return true;
	return false;
}

bool is_branched_into(const uint8_t *text, size_t n, size_t at, const struct group *g)
{
	return is_reached_by_short(text, n, at, g) || is_reached_by_long(text, n, at, g);
}

/* --------------------------------------------------------------- copying */

static bool distance_of(uintptr_t from, uintptr_t to, int32_t *distance)
{
	intptr_t d = (intptr_t)(to - from);

	*distance = (int32_t)d;
	return d == *distance;
}

bool put_jump(uint8_t *to, uintptr_t pc, uintptr_t target)
{
	int32_t distance;

	if (!distance_of(pc + JUMP_BYTES, target, &distance))
		return false;
	*to = 0xe9;
	memcpy(to + 1, &distance, sizeof(distance));
	return true;
}

static bool put_branch(uint8_t *to, uintptr_t target, uint8_t condition)
{
	int32_t distance;

	if (!distance_of((uintptr_t)to + 6, target, &distance))
		return false;
	to[0] = 0x0f;
	to[1] = (uint8_t)(0x80 | condition);
	memcpy(to + 2, &distance, sizeof(distance));
	return true;
}

/* The return address is the program's: push its lower half, sign-extended; then the upper half. */
#define CALL_COPY_BYTES 18

static bool put_call(uint8_t *to, uintptr_t target, uintptr_t back)
{
	const uint32_t lower = (uint32_t)back, upper = (uint32_t)(back >> 32);
	static const uint8_t mov_upper[4] = {0xc7, 0x44, 0x24, 0x04};

	to[0] = 0x68;
	memcpy(to + 1, &lower, sizeof(lower));
	memcpy(to + 5, mov_upper, sizeof(mov_upper));
	memcpy(to + 9, &upper, sizeof(upper));
	return put_jump(to + 13, (uintptr_t)to + 13, target);
}

/* How many bytes the copy takes; 0: it cannot be made. */
static size_t copy(const uint8_t *code, uintptr_t pc, const struct step *s, uint8_t *to)
{
	uintptr_t target = pc + s->length + (uintptr_t)(intptr_t)s->distance;
	int32_t distance;

	switch (s->kind) {
	case BRANCH:
		return put_branch(to, target, s->condition) ? 6 : 0;
	case JUMP:
		return put_jump(to, (uintptr_t)to, target) ? JUMP_BYTES : 0;
	case CALL:
		return put_call(to, target, pc + s->length) ? CALL_COPY_BYTES : 0;
	default:
		memcpy(to, code, s->length);
	}
	if (s->kind == OPERAND && s->relative) {
		if (!distance_of((uintptr_t)to,
				 pc + (uintptr_t)(intptr_t)decode_disp32(code + s->modrm_at + 1), &distance))
			return 0;
		memcpy(to + s->modrm_at + 1, &distance, sizeof(distance));
	}
	return s->length;
}

const uint8_t gap[JUMP_BYTES] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

#define LEA 0x8d

static bool is_in_memory(const uint8_t *code, const struct step *s)
{
	return s->kind == OPERAND && code[s->modrm_at] >> 6 != 3 && code[s->modrm_at - 1] != LEA;
}

size_t relocate(const uint8_t *code, uintptr_t pc, const struct group *g, uint8_t *to, struct copies *c, uintptr_t back)
{
	size_t n = 0, more;
	struct step s;

	c->gaps = 0;
	for (unsigned int i = 0; i < g->n; i++) {
		step_of(code + g->at[i], &s);
		c->at[i] = (uint8_t)n;
		if (i && is_in_memory(code + g->at[i], &s)) {
			c->gaps |= (uint8_t)(1u << i);
			memcpy(to + n, gap, sizeof(gap));
			n += sizeof(gap);
		}
		more = copy(code + g->at[i], pc + g->at[i], &s, to + n);
		if (!more)
			return 0;
		n += more;
	}
	c->at[g->n] = (uint8_t)n;
	if (!put_jump(to + n, (uintptr_t)to + n, back))
		return 0;
	return n + JUMP_BYTES;
}

size_t relocate_operand(uint8_t *to, const uint8_t *code, const struct insn *insn, uint8_t segment, int32_t distance)
{
	uint8_t *p = to;

	*p++ = segment;
	memcpy(p, code, insn->modrm_at);
	/* A REX prefix is the last one; its X bit would make the index r12.  In others it is inverted. */
	if (insn->vex && code[0] != VEX_TWO)
		p[1] |= 0x60;
	else if (!insn->vex && insn->opcode_at && (code[insn->opcode_at - 1] & 0xf0) == 0x40)
		p[insn->opcode_at - 1] &= (uint8_t)~2u;
	p += insn->modrm_at;
	/* No base, no index, a distance of four bytes. */
	*p++ = (uint8_t)((code[insn->modrm_at] & 0x38) | 4);
	*p++ = 0x25;
	memcpy(p, &distance, sizeof(distance));
	p += sizeof(distance);
	memcpy(p, code + insn->tail_at, (size_t)(insn->length - insn->tail_at));
	p += insn->length - insn->tail_at;
	return p - to <= INSN_BYTES_MAX ? (size_t)(p - to) : 0;
}
