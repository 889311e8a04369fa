/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/probe/made_code.h"

#include "shim/exposed/page/lock.h"
#include "shim/exposed/probe/probe.h"

void made_code_follow(void)
{
	text_take_made_code();
}

void made_code_changes(const void *addr, size_t size)
{
	uint64_t mask;

	/* First, so that no thread makes a probe there after this one has looked. */
	if (!text_change_begins())
		return;
	exposed_lock(&mask);
	if (text_changes((uintptr_t)addr, (uintptr_t)addr + size))
		give_up_code((uintptr_t)addr, (uintptr_t)addr + size);
	exposed_unlock(&mask);
}

void made_code_changed(void)
{
	text_change_ends();
}

void made_code_ends(const void *addr, size_t size)
{
	made_code_changes(addr, size);
	made_code_changed();
}

/* The distances of short branches, and small constants, are no addresses. */
#define SMALL_BYTES 2

bool made_code_can_be_copied(const uint8_t *code, const struct group *g)
{
	struct encoding e;

	for (unsigned int i = 0; i < g->n; i++)
		if (!encoding_of(code + g->at[i], &e) || e.relative || e.immediate_bytes > SMALL_BYTES)
			return false;
	return true;
}
