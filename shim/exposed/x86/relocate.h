/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relocate.h: the program's instructions from an address on, copied to another place, where
 * they do what they did.
 */
#ifndef SHIM_EXPOSED_X86_RELOCATE_H
#define SHIM_EXPOSED_X86_RELOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/exposed/x86/opcodes.h"

/* What a jump needs, and how many instructions that may be. */
#define JUMP_BYTES 5
#define GROUP_MAX  JUMP_BYTES
/* Bytes of the group: the last instruction may begin with the jump's last byte. */
#define GROUP_BYTES_MAX (JUMP_BYTES - 1 + INSN_BYTES_MAX)

struct group {
	uint8_t n;        /* instructions */
	uint8_t length;   /* of their bytes, at least JUMP_BYTES */
	uint8_t at[GROUP_MAX + 1]; /* where each begins; the last one: the end */
};

/*
 * The instructions that lie under a jump at code, and whether they are of those that can be
 * copied.
 */
bool group_of(const uint8_t *code, struct group *g);

/*
 * Is there a branch in the text, n bytes of which the group's first one is at `at`, that leads to the midst of the group?
 * Whatever could be one, wherever it begins, is taken for one: few are not.
 */
bool is_branched_into(const uint8_t *text, size_t n, size_t at, const struct group *g);

/* Where the copies begin, from the first one on; [n]: the jump back. */
struct copies {
	uint8_t at[GROUP_MAX + 1];
	/* Bits: before the copy of an instruction with an operand in memory, but for the first, there is such a nop. */
	uint8_t gaps;
};

/* As long as a jump, which may be written there. */
extern const uint8_t gap[JUMP_BYTES];

/* Where the i-th one itself begins, behind its gap. */
static inline unsigned int copy_behind_gap(const struct copies *c, unsigned int i)
{
	return c->at[i] + (c->gaps >> i & 1 ? JUMP_BYTES : 0);
}

/*
 * Puts them to `to`, and a jump to `back` behind. code: their bytes, of which pc is the address. How many bytes; 0: one
 * of them reaches too far.
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
