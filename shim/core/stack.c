/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unwind.h>

#include "logd/base/page.h"

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

static uint64_t name_of(const struct link_map *library)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	const char *name = strrchr(library->l_name, '/');

	for (name = name ? name + 1 : library->l_name; *name; name++)
		hash = mix(hash, (uint8_t)*name);
	return hash;
}

uint64_t sr_stack_place(uint64_t address)
{
	struct dl_find_object found;

	if (_dl_find_object((void *)address, &found))
		return address;
	return mix(name_of(found.dlfo_link_map), address - found.dlfo_link_map->l_addr) | 1;
}

const char *sr_stack_library(uint64_t address, uint64_t *begin, uint64_t *end)
{
	struct dl_find_object found;

	if (_dl_find_object((void *)address, &found))
		return NULL;
	*begin = (uintptr_t)found.dlfo_map_start;
	*end = (uintptr_t)found.dlfo_map_end;
	return found.dlfo_link_map->l_name;
}

static uint64_t find_in(const struct link_map *library, uint64_t place, uint64_t in_page)
{
	const uint64_t name = name_of(library);
	struct dl_find_object found;
	uint64_t at;

	if (_dl_find_object(library->l_ld, &found))
		return 0;
	for (at = (uintptr_t)found.dlfo_map_start + in_page; at < (uintptr_t)found.dlfo_map_end; at += PAGE)
		if ((mix(name, at - library->l_addr) | 1) == place)
			return at;
	return 0;
}

uint64_t sr_stack_find(uint64_t place, uint64_t recorded)
{
	struct dl_find_object here;
	const struct link_map *library;
	uint64_t at = 0;

	if (!place || sr_stack_place(recorded) == place)
		return recorded;
	if (_dl_find_object((void *)sr_stack_find, &here))
		return 0;
	library = here.dlfo_link_map;
	while (library->l_prev)
		library = library->l_prev;
	for (; library && !at; library = library->l_next)
		at = find_in(library, place, recorded % PAGE);
	return at;
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
