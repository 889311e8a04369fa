/* SPDX-License-Identifier: BSD-2-Clause */
/* relocate.c: copies differ from their originals in what is relative to RIP: operands, and branches. */
#include "shim/exposed/x86/relocate.h"

#include <string.h>

/* The instruction at code, as far as it can be moved. */
static bool step_of(const uint8_t *code, struct encoding *e)
{
	if (!encoding_of(code, e) || e->op.form == FORM_UNKNOWN)
		return false;
	/* bnd, repeated returns, branches with hints: rare, and each has a meaning of its own. */
	return !(e->prefixed && e->op.form >= FORM_BRANCH);
}

/* How far a branch, jump or call leads, from the instruction's end. */
static intptr_t step_distance(const uint8_t *code, const struct encoding *e)
{
	return signed_at(code + e->immediate_at, e->immediate_bytes);
}

static int32_t disp32(const uint8_t *p)
{
	return (int32_t)signed_at(p, 4);
}

/*
 * A nop fills a gap before a place where branches lead to, or is one that a tracer writes to (a probe of SystemTap's,
 * a function's patchable entry); endbr64 is where an indirect branch leads.
 */
static bool is_nop(const struct encoding *e)
{
	if (e->kind != ENCODED_LEGACY)
		return false;
	return e->map == 1 ? e->opcode == 0x1f : e->map == 0 && e->opcode == 0x90 && !e->repeat && !e->has_rex;
}

/*
 * Without optimisation a compiler puts a nop where a function's last statement ends: then come leave or pop %rbp, and ret, or
 * the check of the stack's canary.  CODE_MAX bytes are there from the group on, so these can be looked at.
 */
static bool is_statements_end(const uint8_t *p)
{
	static const uint8_t canary[4] = {0x48, 0x8b, 0x45, 0xf8};

	return p[0] == 0x90 && (((p[1] == 0xc9 || p[1] == 0x5d) && p[2] == 0xc3) || !memcmp(p + 1, canary, sizeof(canary)));
}

static bool is_landmark(const uint8_t *p, const struct encoding *e)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

	return !memcmp(p, endbr64, sizeof(endbr64)) || (is_nop(e) && !is_statements_end(p));
}

/* A branch into the midst of the group would meet the jump. */
static bool leads_into(intptr_t distance, const struct group *g)
{
	return -distance < g->length && -distance > 0;
}

/* Functions, and targets of loops, begin at such addresses. */
#define ALIGNED 16

/*
 * Behind a jump or return that ends too early, nops fill the gap before the next function: no path leads there.  A nop
 * that begins a function is not taken, since a tracer may write to it.
 */
static bool take_padding(const uint8_t *code, uintptr_t pc, struct group *g)
{
	struct encoding e;

	while (g->length < JUMP_BYTES) {
		uintptr_t at = pc + g->length;

		if (at % ALIGNED == 0 || (at ^ (pc + JUMP_BYTES - 1)) / ALIGNED || !step_of(code + g->length, &e) ||
		    !is_nop(&e))
			return false;
		g->length = (uint8_t)(g->length + e.length);
		g->at[++g->n] = g->length;
	}
	return true;
}

bool group_of(const uint8_t *code, uintptr_t pc, struct group *g)
{
	*g = (struct group){0};
	return group_extend(code, pc, g);
}

bool group_extend(const uint8_t *code, uintptr_t pc, struct group *g)
{
	struct encoding e;

	while (g->length < JUMP_BYTES) {
		const uint8_t *at = code + g->length;

		if (!step_of(at, &e) || (g->n && is_landmark(at, &e)))
			return false;
		g->length = (uint8_t)(g->length + e.length);
		g->at[++g->n] = g->length;
		/* What is behind it does not belong to this path. */
		if (e.op.form == FORM_JUMP || e.op.form == FORM_JUMP_BY || e.op.form == FORM_RETURN)
			return take_padding(code, pc, g);
		if (e.op.form == FORM_CALL || e.op.form == FORM_CALL_BY)
			return g->length >= JUMP_BYTES;
		if (e.op.form == FORM_BRANCH && leads_into(step_distance(at, &e), g))
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
 * Any four bytes could be the distance of a branch.  Few distances lead to the group, and only these are checked for
 * an opcode in front.  (The other way round the search took 0.9 ms, not 0.2: with a dozen jumps, a tenth of a second
 * on an emulated machine.)
 */
static bool is_reached_by_long(const uint8_t *text, size_t n, size_t at, const struct group *g)
{
	for (size_t i = 0; i + 4 <= n; i++) {
		size_t target = i + 4 + (size_t)disp32(text + i);

		if (target - at < JUMP_BYTES && is_in_midst(g, at, target) && is_long_branch(text, i))
			return true;
	}
	return false;
}

/* As far as a distance of one byte leads: to the last byte of the group, counted from the branch's end. */
#define SHORT (128 + JUMP_BYTES + 2)

bool is_branched_into_nearby(const uint8_t *text, size_t n, size_t at, const struct group *g)
{
	size_t end = n - at > SHORT ? at + SHORT : n;

	for (size_t i = at > SHORT ? at - SHORT : 0; i + 2 <= end; i++)
		if (is_short_branch(text[i]) && is_in_midst(g, at, i + 2 + (size_t)(int8_t)text[i + 1]))
			return true;
	return false;
}

bool is_branched_into(const uint8_t *text, size_t n, size_t at, const struct group *g)
{
	return is_branched_into_nearby(text, n, at, g) || is_reached_by_long(text, n, at, g);
}

bool can_be_shared(const uint8_t *code, unsigned int length)
{
	struct encoding e;

	for (; length < JUMP_BYTES && encoding_of(code + length, &e); length += e.length)
		if (is_landmark(code + length, &e))
			return false;
	return true;
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

/* The return address is the original's: push its lower half, sign-extended, and write the upper half. */
#define PUSH_BYTES      13
#define CALL_COPY_BYTES (PUSH_BYTES + JUMP_BYTES)

static void put_push(uint8_t *to, uintptr_t back)
{
	const uint32_t lower = (uint32_t)back, upper = (uint32_t)(back >> 32);
	static const uint8_t mov_upper[4] = {0xc7, 0x44, 0x24, 0x04};

	to[0] = 0x68;
	memcpy(to + 1, &lower, sizeof(lower));
	memcpy(to + 5, mov_upper, sizeof(mov_upper));
	memcpy(to + 9, &upper, sizeof(upper));
}

static bool put_call(uint8_t *to, uintptr_t target, uintptr_t back)
{
	put_push(to, back);
	return put_jump(to + PUSH_BYTES, (uintptr_t)to + PUSH_BYTES, target);
}

/* An operand relative to RIP keeps its address.  False: that is too far. */
static bool keep_operand(uint8_t *to, const uint8_t *code, uintptr_t pc, const struct encoding *e)
{
	uintptr_t target = pc + (uintptr_t)(intptr_t)disp32(code + e->displacement_at);
	int32_t distance;

	if (!distance_of((uintptr_t)to, target, &distance))
		return false;
	memcpy(to + e->displacement_at, &distance, sizeof(distance));
	return true;
}

/* The same instruction with another row of its group: 2 call, 4 jump, 6 push. */
static void put_row(uint8_t *to, const uint8_t *code, const struct encoding *e, unsigned int row)
{
	memcpy(to, code, e->length);
	to[e->modrm_at] = (uint8_t)((code[e->modrm_at] & 0xc7) | row << 3);
}

/*
 * By memory: pushes the target twice, puts the return address over the first, and returns to the second.  The access
 * to memory comes first, with all registers as they were: it may fault.
 */
static size_t put_call_by_memory(uint8_t *to, const uint8_t *code, uintptr_t pc, const struct encoding *e)
{
	static const uint8_t push_again[3] = {0xff, 0x34, 0x24}, mov_lower[4] = {0xc7, 0x44, 0x24, 0x08},
			     mov_upper[4] = {0xc7, 0x44, 0x24, 0x0c};
	const uintptr_t back = pc + e->length;
	const uint32_t lower = (uint32_t)back, upper = (uint32_t)(back >> 32);
	uint8_t *p = to + e->length;

	put_row(to, code, e, 6);
	if (e->relative && !keep_operand(to, code, pc, e))
		return 0;
	memcpy(p, push_again, 3);
	memcpy(p + 3, mov_lower, 4);
	memcpy(p + 7, &lower, 4);
	memcpy(p + 11, mov_upper, 4);
	memcpy(p + 15, &upper, 4);
	p[19] = 0xc3;
	return e->length + 20u;
}

/* Not by the stack pointer, which has changed. */
static size_t put_call_by_register(uint8_t *to, const uint8_t *code, uintptr_t pc, const struct encoding *e)
{
	if ((code[e->modrm_at] & 7) == REGISTER_SP && !(e->rex & REX_B))
		return 0;
	put_push(to, pc + e->length);
	put_row(to + PUSH_BYTES, code, e, 4);
	return PUSH_BYTES + e->length;
}

/* How many bytes the copy takes; 0: it cannot be made. */
static size_t copy(const uint8_t *code, uintptr_t pc, const struct encoding *e, uint8_t *to)
{
	uintptr_t back = pc + e->length, target = back + (uintptr_t)step_distance(code, e);

	switch (e->op.form) {
	case FORM_BRANCH:
		return put_branch(to, target, e->opcode & 15) ? 6 : 0;
	case FORM_JUMP:
		return put_jump(to, (uintptr_t)to, target) ? JUMP_BYTES : 0;
	case FORM_CALL:
		return put_call(to, target, back) ? CALL_COPY_BYTES : 0;
	case FORM_CALL_BY:
		return (e->has_memory ? put_call_by_memory : put_call_by_register)(to, code, pc, e);
	}
	memcpy(to, code, e->length);
	return !e->relative || keep_operand(to, code, pc, e) ? e->length : 0;
}

const uint8_t gap[JUMP_BYTES] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

static bool is_in_memory(const struct encoding *e)
{
	return e->has_memory && !(e->op.flags & OPCODE_ADDRESS);
}

size_t relocate(const uint8_t *code, uintptr_t pc, const struct group *g, uint8_t *to, struct copies *c, uintptr_t back)
{
	struct encoding e;
	size_t n = 0, more;

	c->gaps = 0;
	for (unsigned int i = 0; i < g->n; i++) {
		if (!step_of(code + g->at[i], &e))
			return 0;
		c->at[i] = (uint8_t)n;
		if (i && is_in_memory(&e)) {
			c->gaps |= (uint8_t)(1u << i);
			memcpy(to + n, gap, sizeof(gap));
			n += sizeof(gap);
		}
		more = copy(code + g->at[i], pc + g->at[i], &e, to + n);
		if (!more)
			return 0;
		n += more;
	}
	c->at[g->n] = (uint8_t)n;
	if (!put_jump(to + n, (uintptr_t)to + n, back))
		return 0;
	return n + JUMP_BYTES;
}

/* The operand has no index now: the X bit would make it r12.  REX has the bit as it is, VEX and EVEX inverted. */
static void clear_index(uint8_t *to, const struct encoding *e)
{
	if (e->has_rex)
		to[e->rex_at] &= (uint8_t)~REX_X;
	else if (e->kind != ENCODED_LEGACY && to[0] != PREFIX_VEX2)
		to[1] |= 0x60;
}

#define NO_BASE_NO_INDEX 0x25 /* SIB: a displacement of four bytes alone */

size_t relocate_operand(uint8_t *to, const uint8_t *code, const struct encoding *e, uint8_t segment, int32_t distance)
{
	size_t rest = e->length - e->immediate_at;
	uint8_t *p = to;

	*p++ = segment;
	memcpy(p, code, e->modrm_at);
	clear_index(p, e);
	p += e->modrm_at;
	*p++ = (uint8_t)((code[e->modrm_at] & 0x38) | 4);
	*p++ = NO_BASE_NO_INDEX;
	memcpy(p, &distance, sizeof(distance));
	p += sizeof(distance);
	memcpy(p, code + e->immediate_at, rest);
	p += rest;
	return p - to <= INSN_BYTES_MAX ? (size_t)(p - to) : 0;
}
