/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pinned.c: makes exposed memory that a call gets as an argument accessible to the kernel or
 * library for the duration of the call.
 */
#include <string.h>

#include "logd/base/checksum.h"
#include "shim/kernel/readable.h"
#include "shim/core/call_stack.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/verbs/compared.h"
#include "shim/verbs/lists.h"

/* Upper limits of the bytes behind a pointer: to a path, to an array element. */
#define TEXT_BYTES   4096
#define THING_BYTES  16

enum thing {
	LOCK,   /* others wait at its address */
	OBJECT, /* a library may keep its address */
	DATA,
};

/* Where pages are lent there is nothing else: they cannot be passed through. */
static bool may_bounce(const struct sr_pinned *p, const void *addr, size_t length, enum thing is)
{
	if (!sr_threaded || is == LOCK || p->bounces_n == SR_BOUNCES || !sr_is_readable(addr, length))
		return false;
	return sr_exposed_is_lent(addr, length) || (is == DATA && p->blocks && length <= SR_LENT_COPY_MOST);
}

/*
 * Of a range that lies on exposed pages and on others there is no alias.  So a call that may wait is given a copy, and what it
 * has changed there is copied back when it ends.
 */
static bool bounce(struct sr_pinned *p, uint64_t *argument, size_t length, enum thing is)
{
	struct sr_bounce *b = &p->bounces[p->bounces_n];

	if (!may_bounce(p, (const void *)*argument, length, is))
		return false;
	b->copy = sr_alloc(2 * length);
	if (!b->copy)
		return false;
	b->before = b->copy + length;
	b->length = length;
	b->argument = argument;
	b->addr = (void *)*argument;
	sr_lent_may_be_written(p, b->addr, length);
	sr_exposed_copy(b->addr, b->before, length);
	memcpy(b->copy, b->before, length);
	*argument = (uintptr_t)b->copy;
	p->bounces_n++;
	return true;
}

/* Where the call wrote the same as before, nothing need be copied; beside, peers may have written meanwhile. */
static void end_bounce(const struct sr_pinned *p, struct sr_bounce *b)
{
	size_t from = 0, to;

	for (; from < b->length; from = to) {
		if (b->copy[from] == b->before[from]) {
			to = from + 1;
			continue;
		}
		for (to = from + 1; to < b->length && b->copy[to] != b->before[to]; to++)
			;
		sr_exposed_put((char *)b->addr + from, b->copy + from, to - from);
		sr_lent_was_written(p, (char *)b->addr + from, to - from);
	}
	*b->argument = (uintptr_t)b->addr;
	sr_free(b->copy);
}

/* ------------------------------------------------------------- what a call outputs */

/*
 * The program knows from then on what it has output, although it has not looked at it; and the kernel gets just that, whatever
 * peers write meanwhile.  So the call is given a copy.  Of what is too long for one the program knows what is there when
 * the call begins.
 */
static bool copy_output(struct sr_pinned *p, uint64_t *argument, size_t length)
{
	const void *addr = (const void *)*argument;
	char *memory;

	if (!sr_is_readable(addr, length))
		return false;
	memory = length <= SR_LENT_COPY_MOST ? sr_alloc(length) : NULL;
	sr_exposed_load(addr, memory, length);
	if (!memory)
		return false;
	p->output = (struct sr_output_copy){.memory = memory, .argument = argument, .real = *argument};
	*argument = (uintptr_t)memory;
	return true;
}

static void end_output_copy(struct sr_output_copy *c)
{
	*c->argument = c->real;
	sr_free(c->memory);
	c->memory = NULL;
}

/* ----------------------------------------------------------------------- arguments */

/* The length of the text, with the final zero, as far as it lies in an exposed region. */
static size_t text_length(const char *text)
{
	char piece[64];
	size_t n = 0, at;

	while (n < TEXT_BYTES && sr_exposed_covers(text + n, 1)) {
		size_t room = sizeof(piece) - (uintptr_t)(text + n) % sizeof(piece);

		sr_exposed_copy(text + n, piece, room);
		at = strnlen(piece, room);
		n += at;
		if (at < room)
			return n + 1;
	}
	return TEXT_BYTES;
}

static void pin_thing(struct sr_pinned *p, uint64_t *argument, size_t length, enum thing is)
{
	if (!sr_lent_is_exposed((const void *)*argument, length))
		return;
	if (p->outputs && is == DATA && copy_output(p, argument, length))
		return;
	if (!sr_lend_alias(p, argument, length) && !bounce(p, argument, length, is))
		sr_lend_in_place(p, (const void *)*argument, length);
}

/*
 * The provider and the recorder write there word by word, and each word of a partially registered page is a fault.  Where
 * registered memory is among it, or a page that is not exposed, these are stores of the program's.
 */
static void pin_completions(struct sr_pinned *p, uint64_t *argument, size_t length)
{
	if (sr_lent_is_exposed((void *)*argument, length) && sr_exposed_is_in_no_region((void *)*argument, length))
		sr_lend_alias(p, argument, length);
}

static void pin_argument(struct sr_pinned *p, uint8_t length_of, uint8_t size, uint64_t *a, int i)
{
	const void *addr = (const void *)a[i];

	switch (length_of) {
	case 0:
		break;
	case SR_LENGTH_STRUCT:
		pin_thing(p, &a[i], size ? size : SR_STRUCT_BYTES, p->locks ? LOCK : OBJECT);
		break;
	case SR_LENGTH_TEXT:
		if (addr && sr_exposed_touches(addr, TEXT_BYTES))
			pin_thing(p, &a[i], text_length(addr), DATA);
		break;
	case SR_LENGTH_PIECES:
		sr_lists_of_pieces(p, &a[i]);
		break;
	case SR_LENGTH_PIECES_THERE:
		sr_lists_in_place(p, addr, a[i + 1]);
		break;
	case SR_LENGTH_MESSAGE:
		sr_lists_of_message(p, &a[i]);
		break;
	case SR_LENGTH_MESSAGES:
		sr_lists_of_messages(p, &a[i]);
		break;
	case SR_LENGTH_COMPLETIONS:
		pin_completions(p, &a[i], (size_t)(uint32_t)a[i - 1] * sizeof(struct ibv_wc));
		break;
	default:
		if (length_of > SR_LENGTH_COUNT)
			pin_thing(p, &a[i],
				  (size_t)(uint32_t)a[length_of - SR_LENGTH_COUNT - 1] *
				      (size ? size : THING_BYTES), DATA);
		else
			pin_thing(p, &a[i], a[length_of - 1], DATA);
	}
}

void sr_regions_pin_none(struct sr_pinned *p)
{
	p->n = 0;
	p->pieces = p->few;
	p->room = sizeof(p->few) / sizeof(p->few[0]);
	p->arguments = NULL;
	p->arguments_n = 0;
	p->wakes = p->locks = p->blocks = p->outputs = false;
	p->bounces_n = 0;
	p->output.memory = NULL;
	p->list.memory = NULL;
}

void sr_regions_pin_more(struct sr_pinned *p, const void *addr, size_t length)
{
	sr_lend_in_place(p, addr, length);
}

void sr_regions_pin(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p)
{
	sr_regions_pin_none(p);
	p->arguments = a;
	p->arguments_n = d->nargs;
	p->blocks = d->flags & SR_CALL_BLOCKS;
	p->outputs = d->flags & SR_CALL_OUTPUT;
	p->locks = d->when == sr_has_threads;
	p->wakes = p->locks && !p->blocks;
	for (int i = 0; i < d->nargs; i++)
		pin_argument(p, d->length_of[i], d->size_of[i], a, i);
}

/* The argument that follows a buffer may be its length. */
void sr_regions_pin_words(const uint64_t a[6], struct sr_pinned *p)
{
	sr_regions_pin_none(p);
	for (int i = 0; i < 6; i++)
		sr_lend_in_place(p, (const void *)a[i],
				 i < 5 && a[i + 1] > SR_STRUCT_BYTES && a[i + 1] < 1ul << 30 ? a[i + 1] : SR_STRUCT_BYTES);
}

void sr_regions_unpin(struct sr_pinned *p)
{
	while (p->bounces_n)
		end_bounce(p, &p->bounces[--p->bounces_n]);
	if (p->output.memory)
		end_output_copy(&p->output);
	if (p->list.memory)
		sr_lists_end(p);
	sr_lent_end(p);
}

/* A wrapper has the arguments in its frame; the trap's are below the signal's frame. */
static uintptr_t programs_stack(const struct sr_call_desc *d, const uint64_t *a)
{
	if (sr_self.raw)
		return sr_self.raw_stack;
	return d->source == SR_SOURCE_SHIM ? UINTPTR_MAX : sr_end_of_callers_stack(&sr_self.signals.stack, (uintptr_t)a);
}

/* On a wrapper's stack, which must not be used meanwhile, it is done on the thread's call stack. */
static void leave_stack(uintptr_t stack, const uint64_t *a)
{
	if (stack != (uintptr_t)a)
		sr_exposed_give_up_stack(stack);
	else if (sr_self.call_stack)
		sr_run_on_stack(sr_self.call_stack, sr_exposed_give_up_stack, stack);
}

void sr_regions_call_begins(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p)
{
	p->stack = programs_stack(d, a);
	if (__builtin_expect(sr_exposed_has_stack(p->stack), 0))
		leave_stack(p->stack, a);
	sr_exposed_call_begins();
	sr_compared_all(SR_EXPOSED_AT_CALL, p->stack);
	/* A replay learns of the region in front of the call, so its first values come at the call's return. */
	sr_regions_compare_lost();
	sr_regions_pin(d, a, p);
}

void sr_regions_call_ends(struct sr_pinned *p)
{
	sr_regions_unpin(p);
	sr_exposed_call_ends();
	sr_compared_all(SR_EXPOSED_AT_RETURN, p->stack);
	sr_regions_change_now();
}

uint64_t sr_regions_checksum(const void *p, size_t length, uint64_t seed)
{
	if (!sr_regions_on || !length || !sr_exposed_covers(p, length))
		return sr_checksum(p, length, seed);
	return sr_exposed_checksum(p, length, seed);
}

const void *sr_regions_sent(const void *p, size_t length)
{
	if (!sr_regions_on || !length || !sr_exposed_covers(p, length))
		return p;
	return sr_exposed_gather(p, length);
}
