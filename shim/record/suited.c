/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/suited.h"

#include <stddef.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "shim/core/stack.h"
#include "shim/exposed/page/mappings.h"
#include "shim/exposed/x86/opcodes.h"
#include "shim/memory/heap.h"
#include "shim/memory/images.h"
#include "shim/threads/place.h"

/* So many words of the stack are looked at for ld.so's code: libc's functions that it calls have small frames. */
#define SERVICE_WORDS 64

/* It is soon done, so a thread is asked again, this often in a row: then it only seems to. */
#define SERVICE_ASKS 16

/* Instructions at which threads have been stopped, or could be. */
#define KNOWN_MAX 512

static struct known {
	uintptr_t pc;
	uint8_t length; /* of what a jump changes */
	uint8_t kind;	/* what suits it if it is alone */
	uint8_t taken;	/* what the trace has there; BREAKPOINT_NONE: no place */
} *known;
static uint32_t known_n;
static uintptr_t outside; /* a page that was found to be of no code that can be known; 0: none was */
static struct sr_lock lock; /* on all of these: a thread that steps is in nobody's section, and may wait for it */

static uint8_t taken_length(const struct known *k)
{
	return k->taken == BREAKPOINT_JUMP ? k->length : 1;
}

/* Other code may be there now. */
static void forget(void *addr, size_t size, int prot)
{
	uint32_t kept = 0;

	(void)prot;
	sr_lock(&lock);
	for (uint32_t i = 0; i < known_n; i++)
		if (known[i].pc - (uintptr_t)addr >= size)
			known[kept++] = known[i];
	known_n = kept;
	outside = 0;
	sr_unlock(&lock);
}

bool sr_suited_start(void)
{
	/* Not in the library's image: few processes need them. */
	known = sr_alloc_zeroed(KNOWN_MAX * sizeof(*known));
	if (known)
		sr_heap_on_code(forget);
	return known;
}

bool sr_suited_may_be(uintptr_t pc)
{
	struct mapped_file file;
	uint64_t begin, end;

	bool is = sr_stack_library(pc, &begin, &end) || map_code_of(pc, &file);

	if (!is)
		outside = sr_page_down(pc);
	else if (outside == sr_page_down(pc))
		outside = 0;
	return is;
}

static bool is_under_taken(uintptr_t pc, unsigned int length)
{
	for (uint32_t i = 0; i < known_n; i++) {
		const struct known *k = &known[i];

		if (k->taken != BREAKPOINT_NONE && pc - k->pc + length - 1 < (uintptr_t)taken_length(k) + length - 1)
			return true;
	}
	return false;
}

/* In a replay only those are changed at which threads have been stopped. */
static enum breakpoint_kind beside_taken(const struct known *k)
{
	if (k->taken != BREAKPOINT_NONE || k->kind == BREAKPOINT_NONE)
		return k->taken;
	if (k->kind == BREAKPOINT_JUMP && !is_under_taken(k->pc, k->length))
		return BREAKPOINT_JUMP;
	return is_under_taken(k->pc, 1) ? BREAKPOINT_NONE : BREAKPOINT_TRAP;
}

static struct known *find(uintptr_t pc)
{
	for (uint32_t i = 0; i < known_n; i++)
		if (known[i].pc == pc)
			return &known[i];
	return NULL;
}

static void forget_others_than_taken(void)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < known_n; i++)
		if (known[i].taken != BREAKPOINT_NONE)
			known[kept++] = known[i];
	known_n = kept;
}

static enum breakpoint_kind suited(uintptr_t pc)
{
	struct known *k = find(pc);
	enum breakpoint_kind kind;
	unsigned int n = 1;

	if (k)
		return beside_taken(k);
	if (known_n == KNOWN_MAX)
		forget_others_than_taken();
	if (known_n == KNOWN_MAX || sr_page_down(pc) == outside || !sr_suited_may_be(pc))
		return BREAKPOINT_NONE;
	kind = breakpoint_suits(pc, &n);
	if (kind == BREAKPOINT_ASK_LATER)
		return kind;
	k = &known[known_n++];
	*k = (struct known){.pc = pc, .length = (uint8_t)n, .kind = (uint8_t)kind};
	return beside_taken(k);
}

enum breakpoint_kind sr_suited(uintptr_t pc)
{
	enum breakpoint_kind kind;

	sr_lock(&lock);
	kind = suited(pc);
	sr_unlock(&lock);
	return kind;
}

enum breakpoint_kind sr_suited_take(uintptr_t pc)
{
	enum breakpoint_kind kind;
	struct known *k;

	sr_lock(&lock);
	kind = suited(pc);
	k = find(pc);
	if (k && kind != BREAKPOINT_ASK_LATER)
		k->taken = (uint8_t)kind;
	sr_unlock(&lock);
	return kind;
}

static bool leads_to_libraries(const uint64_t r[16])
{
	uint64_t words[SERVICE_WORDS];
	size_t n;

	for (uint32_t i = 0; i < 16; i++)
		if (sr_heap_in_shim_arena((const void *)r[i], 1))
			return true;
	n = sr_place_read(words, r[REGISTER_SP], sizeof(words)) / sizeof(words[0]);
	for (size_t i = 0; i < n; i++)
		if (sr_is_loader((const void *)words[i]))
			return true;
	return false;
}

bool sr_suited_serves_libraries(uintptr_t pc, const uint64_t r[16])
{
	static uint32_t asks;
	bool serves = asks < SERVICE_ASKS && sr_is_libc((const void *)pc) && leads_to_libraries(r);

	asks = serves ? asks + 1 : 0;
	return serves;
}
