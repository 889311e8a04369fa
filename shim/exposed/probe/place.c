/* SPDX-License-Identifier: BSD-2-Clause */
/* place.c: where a stub may lie, so that the jump to it has harmless bytes. */
#include "shim/exposed/probe/probe.h"

#include <stddef.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"

/*
 * The highest byte of the distance.  A stub lies 176 MiB to 2 GiB below the instruction, where nothing grows; if a
 * large mapping is there, 32 to 96 MiB above it, in the gap that the kernel leaves below the stack.  A program that lies
 * too low for that has its heap above it, whose first 1.5 GiB are left to it.
 */
static const uint8_t down[] = {0xf4, 0xf0, 0xe8, 0xe0, 0xd8, 0xd0, 0xc8, 0xc0, 0xb0, 0xa0, 0x90, 0x80},
		     gap_above[] = {0x02, 0x03, 0x04, 0x05},
		     up[] = {0x60, 0x68, 0x70, 0x78},
		     on[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06}; /* of a low program's copy, in another stub */
#define LOW 0x20000000ul

/*
 * For a jump that has no choice: below the code, above it where the heap follows, and where the stack does.  Between
 * programs and libraries there is the code that the program maps itself, and above that its other mappings
 * (shim/memory/heap.h).
 */
#define BELOW_MIN (176ul << 20)
#define HEAP_MIN  (1ul << 30)
#define STACK_MIN (96ul << 20)
#define PROGRAMS_END 0x570000000000ul
#define LIBRARIES    0x7e0000000000ul
/* A jump down from a low program leads below address 0, and so behind all that a process can have. */
#define ADDRESSES_END 0x7ffffffff000ul

/* How many choices there are; so many of them below. */
#define PLACES	     1000
#define PLACES_BELOW 960

static uint8_t highest_byte(const struct probe *s, unsigned int n)
{
	if (s->pc >= LOW && n >= PLACES_BELOW)
		return gap_above[n % sizeof(gap_above)];
	if (s->pc >= LOW)
		return down[n % sizeof(down)];
	return s->at == s->pc ? up[n % sizeof(up)] : on[n % sizeof(on)];
}

/* Is byte 0 to 3 of the distance given?  One that begins an instruction is a trap; a punned jump has those behind it. */
static bool is_given(const struct probe *s, unsigned int byte)
{
	return s->punned ? byte + 1 >= s->group.length : under_begin(&s->group, byte + 1);
}

static uint32_t byte_of(const struct probe *s, unsigned int byte, uint32_t choice)
{
	uint32_t given = s->punned ? s->code[byte + 1] : PROBE_TRAP;

	return (is_given(s, byte) ? given : choice & 0xff) << 8 * byte;
}

/* The n-th choice of the distance. */
static int32_t distance_of(const struct probe *s, unsigned int n)
{
	uint32_t v = byte_of(s, 3, highest_byte(s, n)) | byte_of(s, 2, n * 37);

	/* All that is left to choose where both bytes above are given. */
	v |= byte_of(s, 1, n / sizeof(down) % 16 << 4);
	/* The stub begins a page, where that is free to choose. */
	v |= byte_of(s, 0, (uint32_t)-(jump_from(s) + JUMP_BYTES));
	if (!is_given(s, 1))
		v = (v & ~0xf00u) | (uint32_t)((-(jump_from(s) + JUMP_BYTES + (v & ~0xf00u)) >> 8 & 0xf) << 8);
	return (int32_t)v;
}

/* The highest byte of a punned jump's distance is given: the program may need what lies there. */
static bool is_left_to_program(const struct probe *s, uintptr_t at)
{
	if (at < s->at)
		return s->at - at < BELOW_MIN;
	if (s->pc < PROGRAMS_END)
		return at - s->at < HEAP_MIN;
	return s->pc < LIBRARIES || at - s->at > STACK_MIN;
}

static uintptr_t stub_at(const struct probe *s, unsigned int n)
{
	return jump_from(s) + JUMP_BYTES + (uintptr_t)(intptr_t)distance_of(s, n);
}

static bool is_choice(const struct probe *s, unsigned int n, uintptr_t at)
{
	if (at < 0x10000 || at >= ADDRESSES_END)
		return false;
	if (s->punned)
		return !is_left_to_program(s, at);
	return (at > s->at) == (s->pc < LOW || n >= PLACES_BELOW);
}

/* Of a program that lies low, no stub is below it, where a jump leads whose highest byte has to be a trap. */
bool place_is_possible(uintptr_t pc, const struct group *g)
{
	const struct probe s = {.pc = pc, .at = pc, .group = *g};

	for (unsigned int n = 0; n < PLACES; n++)
		if (is_choice(&s, n, stub_at(&s, n)))
			return true;
	return false;
}

/* Two pages: the stub may lie at the end of the first. */
uint8_t *place_stub(const struct probe *s)
{
	for (unsigned int n = 0; n < PLACES; n++) {
		uintptr_t at = stub_at(s, n);
		char *p, *pages = (char *)(at & PAGE_MASK);

		if (!is_choice(s, n, at))
			continue;
		p = sr_sys_mmap(pages, 2 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == pages)
			return (uint8_t *)at;
		if (!sr_sys_is_error(p))
			sr_sys_munmap(p, 2 * PAGE);
	}
	return NULL;
}
