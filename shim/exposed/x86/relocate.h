/* SPDX-License-Identifier: BSD-2-Clause */
/* relocate.h: copies instructions of the program to another place, where they do what they did. */
#ifndef SHIM_EXPOSED_X86_RELOCATE_H
#define SHIM_EXPOSED_X86_RELOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/exposed/x86/opcodes.h"

/* The bytes of a jump, and how many instructions these may be. */
#define JUMP_BYTES 5
#define GROUP_MAX  JUMP_BYTES
/* Bytes of a group: its last instruction may begin with the jump's last byte. */
#define GROUP_BYTES_MAX (JUMP_BYTES - 1 + INSN_BYTES_MAX)

struct group {
	uint8_t n;        /* instructions */
	uint8_t length;   /* of all of them, at least JUMP_BYTES */
	uint8_t at[GROUP_MAX + 1]; /* where each begins; at[n] is the end */
};

/* The instructions that lie under a jump at code, of which pc is the address.  False if one of them cannot be copied. */
bool group_of(const uint8_t *code, uintptr_t pc, struct group *g);

/* The same for a group that has its first instructions already, which may be any. */
bool group_extend(const uint8_t *code, uintptr_t pc, struct group *g);

/*
 * Does a branch in the text lead into the middle of the group?  The text has n bytes, and the group begins at `at`.
 * Whatever bytes could be a branch count as one, wherever they begin: that is seldom wrong.
 */
bool is_branched_into(const uint8_t *text, size_t n, size_t at, const struct group *g);

/* The same for branches with a distance of one byte, which takes a hundredth of the time. */
bool is_branched_into_nearby(const uint8_t *text, size_t n, size_t at, const struct group *g);

/*
 * May the bytes from `length` on, up to the end of a jump, be a part of that jump's distance, and stay as they are?
 * Not where a tracer may write.
 */
bool can_be_shared(const uint8_t *code, unsigned int length);

/* Where each copy begins; at[n] is the jump back. */
struct copies {
	uint8_t at[GROUP_MAX + 1];
	/* A bit for each instruction but the first: it has an operand in memory, and a nop in front of its copy. */
	uint8_t gaps;
};

/* The nop, which is as long as a jump, so that one can be written there. */
extern const uint8_t gap[JUMP_BYTES];

/* Where the i-th copy itself begins, behind its gap. */
static inline unsigned int copy_behind_gap(const struct copies *c, unsigned int i)
{
	return c->at[i] + (c->gaps >> i & 1 ? JUMP_BYTES : 0);
}

/*
 * Writes the copies to `to`, and a jump to `back` behind them.  code: the originals' bytes, of which pc is the
 * address.  How many bytes; 0: an operand or branch reaches too far.
 */
size_t relocate(const uint8_t *code, uintptr_t pc, const struct group *g, uint8_t *to, struct copies *c, uintptr_t back);

/*
 * Puts the same instruction to `to` (32 bytes), with its operand at a distance from the segment's base.  How many bytes
 * it takes; 0: more than an instruction may have.
 */
size_t relocate_operand(uint8_t *to, const uint8_t *code, const struct encoding *e, uint8_t segment, int32_t distance);

/* jmp to target at `to`, which will be at pc; false: too far. */
bool put_jump(uint8_t *to, uintptr_t pc, uintptr_t target);

#endif
