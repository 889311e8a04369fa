/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * springboard.c: a jump of two bytes, by way of one of five in a nop nearby.
 *
 * An instruction of two bytes, with a target of branches behind it, has room for no more: such are the ends of libc's
 * memcpy().  Behind functions, and in front of loops, nops of 7 to 15 bytes fill gaps.  The springboard is written over
 * one of them and stays there for ever, since a thread may have been stopped between the two jumps.  It begins with a
 * jump over itself, so who comes to the nop goes on as before, without a fault.
 */
#include <stdatomic.h>
#include <string.h>

#include "shim/exposed/probe/probe.h"
#include "shim/exposed/x86/length.h"

#define SPRINGBOARDS_MAX 64
#define OPCODE_SHORT	 0xeb
#define REACH		 127 /* of a jump of two bytes, from its end; a springboard has two bytes in front of its own jump, too */

/* Read without the lock. */
static const struct probe *springboards[SPRINGBOARDS_MAX];
static _Atomic uint32_t springboards_n;

/* ---------------------------------------------------------------------- a nop */

/* nopl or nopw with a distance of 0 in four bytes, as assemblers write it: data in the text are hardly ever like that. */
static bool is_long_nop(const uint8_t *code, const struct shape *s)
{
	static const uint8_t plain[] = {0x0f, 0x1f, 0x80, 0, 0, 0, 0}, with_sib[] = {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};
	const uint8_t *at = code + s->opcode_at;
	size_t n = s->length - s->opcode_at;

	return (n == sizeof(plain) && !memcmp(at, plain, n)) || (n == sizeof(with_sib) && !memcmp(at, with_sib, n));
}

static bool overlaps(const struct probe *s, uintptr_t begin, uintptr_t end)
{
	return begin < s->springboard.at + SPRINGBOARD_BYTES && end > s->springboard.at;
}

bool springboard_overlaps(uintptr_t begin, uintptr_t end)
{
	for (uint32_t i = 0; i < springboards_n; i++)
		if (overlaps(springboards[i], begin, end))
			return true;
	return false;
}

/* Nobody has written there. */
static bool is_free(const struct probe *s, uintptr_t at, const uint8_t *file, size_t n)
{
	return !memcmp((const void *)at, file, n) && !has_jump_within(at, at + n, s) && !springboard_overlaps(at, at + n);
}

/* Instructions are known to begin where those before them end. */
bool springboard_find(struct probe *s, const struct text *t)
{
	struct shape shape;
	const uint8_t *file;

	if (springboards_n == SPRINGBOARDS_MAX)
		return false;
	for (uintptr_t at = s->pc + s->insn.length; at <= s->pc + REACH; at += shape.length) {
		file = t->file + (at - t->begin);
		if (!shape_of(file, t->end - at, &shape))
			return false;
		if (!is_long_nop(file, &shape) || !is_free(s, at, file, shape.length))
			continue;
		s->springboard.at = at;
		s->springboard.length = shape.length;
		memcpy(s->springboard.was, file, SPRINGBOARD_BYTES);
		return true;
	}
	return false;
}

/* ---------------------------------------------------------------------- jumps */

bool springboard_put(struct probe *s, uintptr_t stub)
{
	memcpy(s->jump, s->was, JUMP_BYTES);
	s->jump[0] = OPCODE_SHORT;
	s->jump[1] = (uint8_t)(jump_from(s) - (s->at + SHORT_JUMP_BYTES));
	s->springboard.jump[0] = OPCODE_SHORT;
	s->springboard.jump[1] = s->springboard.length - SHORT_JUMP_BYTES;
	return put_jump(s->springboard.jump + SHORT_JUMP_BYTES, jump_from(s), stub);
}

/* Not memcmp(): see begins_with(). */
static bool has(const struct probe *s, const uint8_t *bytes)
{
	return begins_with(s->springboard.at, bytes, SPRINGBOARD_BYTES);
}

bool springboard_is_there(const struct probe *s)
{
	return has(s, s->springboard.jump);
}

bool springboard_write(const struct probe *s)
{
	springboards[springboards_n] = s;
	atomic_fetch_add_explicit(&springboards_n, 1, memory_order_release);
	return write_over_nop(s);
}

/* -------------------------------------------------------------------- threads */

const struct probe *springboard_probe(uintptr_t at)
{
	uint32_t n = atomic_load_explicit(&springboards_n, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++)
		if (at == jump_from(springboards[i]) &&
		    begins_with(at, springboards[i]->springboard.jump + SHORT_JUMP_BYTES, JUMP_BYTES))
			return springboards[i];
	return NULL;
}

bool springboard_trapped(const struct probe *s, uintptr_t at)
{
	if (!s->springboard.at || at != s->springboard.at)
		return false;
	return s->state == PROBE_CHANGING || has(s, s->springboard.jump) || has(s, s->springboard.was);
}

void springboard_originals(uintptr_t from, uint8_t *code, size_t n)
{
	for (uint32_t k = 0; k < springboards_n; k++)
		for (unsigned int i = 0; i < SPRINGBOARD_BYTES; i++) {
			uintptr_t at = springboards[k]->springboard.at + i - from;

			if (at < n && code[at] == springboards[k]->springboard.jump[i])
				code[at] = springboards[k]->springboard.was[i];
		}
}
