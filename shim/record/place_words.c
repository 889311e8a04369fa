/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/place_words.h"

#include <stddef.h>

#include "shim/core/run_token.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/decode.h"
#include "shim/exposed/x86/opcodes.h"
#include "shim/memory/heap.h"
#include "shim/memory/images.h"
#include "shim/signals/frame.h"

#define TOUCHED_MAX 256
#define REMEMBERED  96
/* So far below the stack pointer there may be what functions have left that have returned. */
#define BELOW_STACK 65536

static struct {
	/* What the code loaded and stored, with the values from before. */
	uint32_t touched;
	struct sr_place_word *word; /* TOUCHED_MAX */
	uint64_t stack, stack_bytes; /* of the thread, as far as its frames go now */

	/* Words that changed at places where handlers ran, with their values at the last one; the oldest one goes first. */
	struct sr_place_word *remembered; /* REMEMBERED */
	uint32_t remembered_n, oldest;
} words;

bool sr_place_words_start(void)
{
	words.word = sr_alloc_zeroed(TOUCHED_MAX * sizeof(*words.word));
	words.remembered = sr_alloc_zeroed(REMEMBERED * sizeof(*words.remembered));
	return words.word && words.remembered;
}

void sr_place_words_begin(void)
{
	words.touched = 0;
}

/* A whole word at its end, too. */
void sr_place_words_stack(uint64_t sp, uint64_t top)
{
	words.stack = sp - SR_RED_ZONE;
	words.stack_bytes = top > sp ? top - words.stack - 7 : 0;
}

static bool is_on_stack(uint64_t addr)
{
	return addr - words.stack < words.stack_bytes;
}

/* Asking the kernel costs as much as a step does; the thread's stack is there. */
static bool read_word(uint64_t addr, uint64_t *value)
{
	if (is_on_stack(addr)) {
		*value = *(const volatile uint64_t *)addr;
		return true;
	}
	return sr_place_read(value, addr, 8) == 8;
}

static bool has_changed(const struct sr_place_word *w)
{
	uint64_t now;

	return !read_word(w->addr, &now) || now != w->value;
}

static bool is_touched(uint64_t addr)
{
	for (uint32_t i = 0; i < words.touched; i++)
		if (words.word[i].addr == addr)
			return true;
	return false;
}

/* The code is about to load or store this aligned word.  False: it is not known what is there, or there is no room. */
static bool touch(uint64_t addr)
{
	/* ld.so counts what it looks up, of which there is less in a replay: the providers' libraries are not loaded. */
	if (is_touched(addr) || sr_is_loader((const void *)addr))
		return true;
	if (words.touched == TOUCHED_MAX || sr_exposed_touches((void *)addr, 8) || !read_word(addr, &words.word[words.touched].value))
		return false;
	words.word[words.touched++].addr = addr;
	return true;
}

static bool touch_all(uint64_t addr, unsigned int size)
{
	bool known = size;

	for (unsigned int at = 0; at < size; at += 8)
		known &= touch((addr + at) & ~7ull);
	if (size && (addr & 7) + (size < 8 ? size : 8) > 8)
		known &= touch((addr + size - 1) & ~7ull);
	return known;
}

/* PUSH of a register: a function that is called keeps its caller's count so. */
static bool is_push(const uint8_t *code)
{
	if ((code[0] & 0xf0) == 0x40)
		code++;
	return (code[0] & 0xf8) == 0x50;
}

bool sr_place_words_instruction(uintptr_t pc, const uint64_t r[16])
{
	const uint8_t *code = probes_code_at(pc);
	bool known = !is_push(code) || touch(r[REGISTER_SP] - 8);
	struct encoding e;
	struct operand o;
	uint64_t addr;
	unsigned int size;

	if (!encoding_of(code, &e) || e.op.class == INSN_STRING)
		return false;
	if (!e.has_memory || e.op.flags & OPCODE_ADDRESS)
		return known;
	known &= e.segment != PREFIX_GS;
	addr = e.segment ? (uintptr_t)__builtin_thread_pointer() : 0;
	e.segment = 0;
	size = encoding_operand_size(&e);
	if (!encoding_operand(code, pc, &e, &o))
		return false;
	addr += o.displacement;
	if (o.base != NO_REGISTER)
		addr += r[o.base];
	if (o.index != NO_REGISTER)
		addr += r[o.index] << o.shift;
	return touch_all(addr, size) && known;
}

uint32_t sr_place_words_touched(void)
{
	return words.touched;
}

bool sr_place_words_any_changed(void)
{
	for (uint32_t i = 0; i < words.touched; i++)
		if (has_changed(&words.word[i]))
			return true;
	return false;
}

/* Of a function that has returned: not compared, as the stack is not below its pointer. */
static bool is_below_stack(const struct sr_place *place, uint64_t addr)
{
	return place->p.registers[REGISTER_SP] - addr - 1 < BELOW_STACK;
}

/* The stack's sum has it; a signal's place has the sum of so much that its words are kept for what is elsewhere. */
static bool is_in_sum(const struct sr_place *place, uint64_t addr)
{
	return addr - place->p.registers[REGISTER_SP] < place->p.stack_bytes;
}

static bool is_to_be_told(const struct sr_place *place, uint64_t addr, bool for_signal)
{
	return !is_below_stack(place, addr) && !(for_signal && is_in_sum(place, addr));
}

static void add(struct sr_place *place, uint64_t addr, bool for_signal)
{
	if (place->p.words < (for_signal ? SR_PLACE_SIGNAL_WORDS : SR_PLACE_WORDS))
		place->word[place->p.words++].addr = addr;
}

/* ------------------------------------------------------ places where handlers run */

static void remember(uint64_t addr)
{
	for (uint32_t i = 0; i < words.remembered_n; i++)
		if (words.remembered[i].addr == addr)
			return;
	if (words.remembered_n < REMEMBERED) {
		words.remembered[words.remembered_n++] = (struct sr_place_word){.addr = addr};
		return;
	}
	words.remembered[words.oldest] = (struct sr_place_word){.addr = addr};
	words.oldest = (words.oldest + 1) % REMEMBERED;
}

/* Where threads run at once, the others may change it at any time; and what peers can write is not the program's alone. */
static bool is_the_programs(uint64_t addr)
{
	return !sr_token_others_parted() && !is_on_stack(addr) && !sr_exposed_touches((void *)addr, 8);
}

static void add_remembered(struct sr_place *place)
{
	for (uint32_t i = 0; i < words.remembered_n; i++) {
		struct sr_place_word *w = &words.remembered[i];

		if (read_word(w->addr, &w->value) && !is_touched(w->addr) && is_the_programs(w->addr))
			add(place, w->addr, true);
	}
}

/* ------------------------------------------------------------------- boxed values */

/* An interpreter's variable is a pointer to an object of so many bytes at least, which has its value at its end. */
#define OBJECT_BYTES 32

/* May an object of the program's lie there: in its heap, in its own mappings, or among its variables? */
static bool may_be_object(uint64_t addr)
{
	return addr % 8 == 0 && addr > UINT16_MAX && addr < SR_SEGMENTS && (addr < SR_LIBRARY_ARENA || addr >= SR_PROGRAM_MAPS);
}

static bool has_word(const struct sr_place *place, uint64_t addr)
{
	for (uint32_t i = 0; i < place->p.words; i++)
		if (place->word[i].addr == addr)
			return true;
	return false;
}

/*
 * A loop of an interpreter may come back with the same pointers, as it frees its objects and allocates them again: what they
 * point to tells one turn from another.
 */
static void add_objects(struct sr_place *place)
{
	const uint32_t n = place->p.words;
	uint64_t object, now[OBJECT_BYTES / 8];

	for (uint32_t i = 0; i < n; i++) {
		if (!read_word(place->word[i].addr, &object) || !may_be_object(object) || sr_place_read(now, object, sizeof(now)) < sizeof(now))
			continue;
		for (uint64_t at = object; at < object + OBJECT_BYTES; at += 8)
			if (is_the_programs(at) && !has_word(place, at))
				add(place, at, true);
	}
}

/* ----------------------------------------------------------------- all words of a place */

/* Of the touched ones those that have changed, or the others. */
static void add_touched(struct sr_place *place, const bool changed[TOUCHED_MAX], bool which, bool for_signal)
{
	for (uint32_t i = 0; i < words.touched; i++) {
		const uint64_t addr = words.word[i].addr;

		if (changed[i] != which || !is_to_be_told(place, addr, for_signal))
			continue;
		add(place, addr, for_signal);
		if (for_signal && which && !is_on_stack(addr))
			remember(addr);
	}
}

bool sr_place_words_take(struct sr_place *place, bool for_signal)
{
	bool changed[TOUCHED_MAX], any;

	for (uint32_t i = 0; i < words.touched; i++)
		changed[i] = has_changed(&words.word[i]);
	place->p.words = 0;
	add_touched(place, changed, true, for_signal);
	any = place->p.words;
	if (for_signal) {
		add_remembered(place);
		add_objects(place);
	}
	add_touched(place, changed, false, for_signal);
	sr_place_take_words(place);
	return any;
}

bool sr_place_words_progressed(void)
{
	for (uint32_t i = 0; i < words.remembered_n; i++)
		if (has_changed(&words.remembered[i]))
			return true;
	return false;
}
