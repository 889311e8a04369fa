/* SPDX-License-Identifier: BSD-2-Clause */
/* length.c: after the Intel manual, volume 2, appendix A, and the AMD manual, volume 3, appendix A. */
#include "shim/exposed/x86/length.h"

#include <string.h>

#include "shim/exposed/x86/opcodes.h"
#include "shim/exposed/x86/vectors.h"

/* What follows an opcode. */
enum {
	M = 1,          /* ModRM */
	I1 = 2,         /* an immediate of a byte */
	I2 = 4,         /* ... of two */
	IZ = 8,         /* ... of the operand size, at most 4 */
	IV = 16,        /* ... of the operand size */
	BRANCH = 32,    /* the immediate is a distance: I1, or four bytes */
	NONE = 64,      /* nothing */
	TEST = 128,     /* ModRM; an immediate only if its middle bits are 0 or 1 */
	ADDRESS = 0x81, /* of eight bytes (TEST and M exclude each other otherwise) */
};

#define ARITHMETIC M, M, M, M, I1, IZ

/* 0 is an opcode that is not valid in 64-bit mode, or that is handled apart. */
static const uint8_t one_byte[256] = {
    [0x00] = ARITHMETIC, [0x08] = ARITHMETIC, [0x10] = ARITHMETIC, [0x18] = ARITHMETIC,
    [0x20] = ARITHMETIC, [0x28] = ARITHMETIC, [0x30] = ARITHMETIC, [0x38] = ARITHMETIC,
    [0x50 ... 0x5f] = NONE,
    [0x63] = M,
    [0x68] = IZ, M | IZ, I1, M | I1, NONE, NONE, NONE, NONE,
    [0x70 ... 0x7f] = I1 | BRANCH,
    [0x80] = M | I1, M | IZ, 0, M | I1,
    [0x84 ... 0x8e] = M,
    [0x8f] = M, /* XOP is handled apart */
    [0x90 ... 0x99] = NONE,
    [0x9b ... 0x9f] = NONE,
    [0xa0 ... 0xa3] = ADDRESS,
    [0xa4 ... 0xa7] = NONE,
    [0xa8] = I1, IZ,
    [0xaa ... 0xaf] = NONE,
    [0xb0 ... 0xb7] = I1,
    [0xb8 ... 0xbf] = IV,
    [0xc0] = M | I1, M | I1, I2, NONE,
    [0xc6] = M | I1, M | IZ, I2 | I1, NONE, I2, NONE, NONE, I1,
    [0xcf] = NONE,
    [0xd0 ... 0xd3] = M,
    [0xd7] = NONE,
    [0xd8 ... 0xdf] = M, /* x87 */
    [0xe0 ... 0xe3] = I1 | BRANCH,
    [0xe4 ... 0xe7] = I1,
    [0xe8 ... 0xe9] = BRANCH,
    [0xeb] = I1 | BRANCH,
    [0xec ... 0xef] = NONE,
    [0xf1] = NONE,
    [0xf4 ... 0xf5] = NONE,
    [0xf6 ... 0xf7] = TEST,
    [0xf8 ... 0xfd] = NONE,
    [0xfe ... 0xff] = M,
};

/* Behind 0f. */
static const uint8_t two_bytes[256] = {
    [0x00 ... 0x03] = M,
    [0x05 ... 0x09] = NONE,
    [0x0b] = NONE,
    [0x0d] = M,
    [0x0e] = NONE,
    [0x0f] = M | I1, /* 3DNow! */
    [0x10 ... 0x1f] = M,
    [0x28 ... 0x2f] = M,
    [0x30 ... 0x35] = NONE, /* rdtsc is 31 */
    [0x37] = NONE,
    [0x40 ... 0x6f] = M,
    [0x70 ... 0x73] = M | I1,
    [0x74 ... 0x76] = M,
    [0x77] = NONE,
    [0x78 ... 0x79] = M,
    [0x7c ... 0x7f] = M,
    [0x80 ... 0x8f] = BRANCH,
    [0x90 ... 0x9f] = M,
    [0xa0 ... 0xa2] = NONE,
    [0xa3] = M, M | I1, M, M, M, /* the last two are VIA's */
    [0xa8 ... 0xaa] = NONE,
    [0xab] = M, M | I1, M, M, M,
    [0xb0 ... 0xb9] = M,
    [0xba] = M | I1,
    [0xbb ... 0xc1] = M,
    [0xc2] = M | I1, M, M | I1, M | I1, M | I1, M,
    [0xc8 ... 0xcf] = NONE,
    [0xd0 ... 0xff] = M,
};

/* An instruction on the way. */
struct reader {
	const uint8_t *code;
	size_t at, n;
	bool operand16, address32, wide, repne, relative;
	uint8_t follows; /* M, I1, ... */
	unsigned int more; /* bytes of immediate besides */
};

/* Bytes beyond the end read as 0; shape_of() refuses what reached there. */
static uint8_t byte_at(const struct reader *r, size_t at)
{
	return at < r->n ? r->code[at] : 0;
}

static bool take_prefix(struct reader *r, uint8_t byte)
{
	switch (byte) {
	case PREFIX_OPERAND16:
		r->operand16 = true;
		return true;
	case 0x67:
		r->address32 = true;
		return true;
	case PREFIX_REPNE:
		r->repne = true;
		return true;
	case PREFIX_REP:
	case PREFIX_LOCK:
	case PREFIX_FS:
	case PREFIX_GS:
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
		return true;
	}
	return false;
}

/* REX has a meaning only directly in front of the opcode. */
static void take_prefixes(struct reader *r)
{
	for (; r->at < INSN_BYTES_MAX; r->at++) {
		uint8_t byte = byte_at(r, r->at);

		if (byte >> 4 == 4)
			r->wide = byte & REX_W;
		else if (take_prefix(r, byte))
			r->wide = false;
		else
			return;
	}
}

/* VEX and EVEX: r->at is at the first byte. */
static bool take_vex(struct reader *r)
{
	uint8_t first = byte_at(r, r->at), map = byte_at(r, r->at + 1) & 0x1f, op;
	unsigned int bytes = first == PREFIX_VEX2 ? 2 : first == PREFIX_VEX3 ? 3 : 4;

	if (first == PREFIX_VEX2)
		map = 1;
	if (first == PREFIX_EVEX)
		map &= 7;
	if (!map || map > 6 || map == 4 || (first != PREFIX_EVEX && map > 3))
		return false;
	r->at += bytes;
	op = byte_at(r, r->at++);
	r->follows = M;
	if (first != PREFIX_EVEX && map == 1 && op == 0x77)
		r->follows = NONE;
	else if (vector_has_immediate(map, op))
		r->follows |= I1;
	return true;
}

/* AMD's: where an 8f has a map above 7. */
static bool take_xop(struct reader *r)
{
	uint8_t map = byte_at(r, r->at + 1) & 0x1f;

	if (map > 10)
		return false;
	r->at += 4;
	r->follows = M | (map == 8 ? I1 : 0);
	r->more = map == 10 ? 4 : 0;
	return true;
}

static bool take_two_bytes(struct reader *r)
{
	uint8_t op = byte_at(r, r->at++);

	if (op == 0x38 || op == 0x3a) {
		r->at++;
		r->follows = op == 0x3a ? M | I1 : M;
		return true;
	}
	if (op >= 0x20 && op <= 0x23) { /* a move to or from a control register: ModRM never means memory */
		r->at++;
		r->follows = NONE;
		return true;
	}
	r->follows = two_bytes[op];
	if (op == 0x78 && (r->operand16 || r->repne)) /* extrq, insertq */
		r->more = 2;
	return r->follows;
}

static bool take_opcode(struct reader *r)
{
	uint8_t op = byte_at(r, r->at);

	if (op == PREFIX_VEX2 || op == PREFIX_VEX3 || op == PREFIX_EVEX)
		return take_vex(r);
	if (op == 0x8f && (byte_at(r, r->at + 1) & 0x1f) >= 8)
		return take_xop(r);
	r->at++;
	if (op == 0x0f)
		return take_two_bytes(r);
	r->follows = one_byte[op];
	if (r->follows == TEST) {
		bool has = !(byte_at(r, r->at) & 0x30);

		r->follows = (uint8_t)(M | (!has ? 0 : op == 0xf6 ? I1 : IZ));
	} else if (r->follows == ADDRESS) {
		r->follows = NONE;
		r->more = r->address32 ? 4 : 8;
	}
	return r->follows;
}

static void take_modrm(struct reader *r)
{
	uint8_t modrm = byte_at(r, r->at++), mod = modrm >> 6, base = modrm & 7;

	if (mod == 3)
		return;
	r->relative = !mod && base == 5;
	if (base == 4)
		base = byte_at(r, r->at++) & 7;
	r->at += mod == 1 ? 1 : mod == 2 || base == 5 ? 4 : 0;
}

/* Processors disagree about a branch of four bytes behind 66: Intel's ignore it. */
static bool take_branch(struct reader *r, struct shape *s)
{
	bool is_short = r->follows & I1;
	size_t size = is_short ? 1 : 4;

	if (r->operand16 && !r->wide)
		return false;
	if (r->at + size > r->n)
		return false;
	s->branches = true;
	s->distance = (int32_t)signed_at(r->code + r->at, (unsigned int)size);
	r->at += size;
	return true;
}

static size_t immediates(const struct reader *r)
{
	size_t word = r->wide ? 8 : r->operand16 ? 2 : 4, n = r->more;

	n += r->follows & I1 ? 1 : 0;
	n += r->follows & I2 ? 2 : 0;
	n += r->follows & IV ? word : 0;
	n += r->follows & IZ ? (word == 8 ? 4 : word) : 0;
	return n;
}

bool shape_of(const uint8_t *code, size_t n, struct shape *s)
{
	struct reader r = {.code = code, .n = n};

	memset(s, 0, sizeof(*s));
	take_prefixes(&r);
	s->opcode_at = (uint8_t)r.at;
	if (!take_opcode(&r))
		return false;
	if (r.follows & BRANCH) {
		if (!take_branch(&r, s))
			return false;
	} else {
		if (r.follows & M)
			take_modrm(&r);
		r.at += immediates(&r);
	}
	s->relative = r.relative;
	s->length = (uint8_t)r.at;
	return r.at <= n && r.at <= INSN_BYTES_MAX;
}
