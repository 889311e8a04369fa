/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/stack.h"

#include <string.h>
#include <unwind.h>

#include "logd/base/page.h"
#include "shim/core/loaded.h"

/* Frames of the shim, and a signal's. */
#define SKIPPED_MOST 64

struct walk {
	struct sr_stack *s;
	uint64_t from;
	int skipped;
};

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *argument)
{
	struct walk *w = argument;
	uint64_t address = (uint64_t)_Unwind_GetIP(context);
	const uint64_t *slot;

	if (!w->s->n && address != w->from)
		return ++w->skipped < SKIPPED_MOST ? _URC_NO_REASON : _URC_END_OF_STACK;
	if (!address)
		return _URC_END_OF_STACK;
	/* The return address lies below the frame that it leads to, unless a signal came between.
	 */
	slot = (const uint64_t *)_Unwind_GetCFA(context) - 1;
	w->s->slots[w->s->n] = !w->s->n || *slot != address ? NULL : slot;
	w->s->frames[w->s->n++] = address;
	return w->s->n < SR_STACK_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15ull ^ hash >> 29;
}

static uint64_t name_of(const struct sr_loaded *library)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	const char *name = strrchr(library->name, '/');

	for (name = name ? name + 1 : library->name; *name; name++)
		hash = mix(hash, (uint8_t)*name);
	return hash;
}

uint64_t sr_stack_place(uint64_t address)
{
	struct sr_loaded found;

	if (!sr_loaded_at(address, &found))
		return address;
	return mix(name_of(&found), address - found.base) | 1;
}

const char *sr_stack_library(uint64_t address, uint64_t *begin, uint64_t *end)
{
	struct sr_loaded found;

	if (!sr_loaded_at(address, &found))
		return NULL;
	*begin = found.begin;
	*end = found.end;
	return found.name;
}

struct place_sought {
	uint64_t place, in_page;
	uint64_t at; /* 0: not found yet */
};

static bool find_in(const struct sr_loaded *library, void *argument)
{
	struct place_sought *sought = argument;
	const uint64_t name = name_of(library);

	for (uint64_t at = library->begin / PAGE * PAGE + sought->in_page; at < library->end; at += PAGE)
		if ((mix(name, at - library->base) | 1) == sought->place) {
			sought->at = at;
			return true;
		}
	return false;
}

uint64_t sr_stack_find(uint64_t place, uint64_t recorded)
{
	struct place_sought sought = {place, recorded % PAGE, 0};

	if (!place || sr_stack_place(recorded) == place)
		return recorded;
	sr_loaded_each(find_in, &sought);
	return sought.at;
}

void sr_stack_take(struct sr_stack *s, uint64_t from)
{
	struct walk w = {s, from, 0};

	s->n = 0;
	s->hash = 0;
	_Unwind_Backtrace(take_frame, &w);
	if (!s->n)
		return;
	s->hash = 0xcbf29ce484222325ull;
	for (uint32_t i = 0; i < s->n; i++)
		s->hash = mix(s->hash, sr_stack_place(s->frames[i]));
	s->hash |= !s->hash;
}

static _Unwind_Reason_Code take_end(struct _Unwind_Context *context, void *argument)
{
	uintptr_t *end = argument, frame = (uintptr_t)_Unwind_GetCFA(context);

	*end = frame > *end ? frame : *end;
	return _URC_NO_REASON;
}

uintptr_t sr_stack_end(void)
{
	uintptr_t end = 0;

	_Unwind_Backtrace(take_end, &end);
	return end;
}
