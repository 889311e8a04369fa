/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unwind.h>

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

uint64_t sr_stack_place(uint64_t address)
{
	struct dl_find_object found;
	const char *name;
	uint64_t hash = 0xcbf29ce484222325ull;

	if (_dl_find_object((void *)address, &found))
		return address;
	name = strrchr(found.dlfo_link_map->l_name, '/');
	for (name = name ? name + 1 : ""; *name; name++)
		hash = mix(hash, (uint8_t)*name);
	return mix(hash, address - found.dlfo_link_map->l_addr) | 1;
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
