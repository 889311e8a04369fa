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

/* How many choices there are; so many of them below. */
#define PLACES	     280
#define PLACES_BELOW 240

static uint8_t highest_byte(const struct probe *s, unsigned int n)
{
	if (s->pc >= LOW && n >= PLACES_BELOW)
		return gap_above[n % sizeof(gap_above)];
	if (s->pc >= LOW)
		return down[n % sizeof(down)];
	return s->at == s->pc ? up[n % sizeof(up)] : on[n % sizeof(on)];
}

/* Does an instruction begin with byte 0 to 3 of the distance? */
static bool is_begin(const struct group *g, unsigned int byte)
{
	return under_begin(g, byte + 1);
}

/* The n-th choice of the distance's bytes: those that begin an instruction are traps. */
static int32_t distance_of(const struct probe *s, unsigned int n)
{
	const struct group *g = &s->group;
	uint32_t high = highest_byte(s, n), v;

	v = (is_begin(g, 3) ? PROBE_TRAP : high) << 24;
	v |= (is_begin(g, 2) ? PROBE_TRAP : n * 37 & 0xff) << 16;
	/* All that is left to choose where both bytes above are traps. */
	v |= (is_begin(g, 1) ? PROBE_TRAP : n / sizeof(down) % 16 << 4) << 8;
	/* The stub begins a page, where that is free to choose. */
	v |= is_begin(g, 0) ? PROBE_TRAP : (uint32_t)(-(s->at + JUMP_BYTES) & 0xff);
	if (!is_begin(g, 1))
		v = (v & ~0xf00u) | (uint32_t)((-(s->at + JUMP_BYTES + (v & ~0xf00u)) >> 8 & 0xf) << 8);
	return (int32_t)v;
}

/* Two pages: the stub may lie at the end of the first. */
uint8_t *place_stub(const struct probe *s)
{
	for (unsigned int n = 0; n < PLACES; n++) {
		uintptr_t at = s->at + JUMP_BYTES + (uintptr_t)(intptr_t)distance_of(s, n);
		char *p, *pages = (char *)(at & PAGE_MASK);

		if ((at > s->at) != (s->pc < LOW || n >= PLACES_BELOW) || at < 0x10000)
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
