/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/search.h"

#include <stdatomic.h>

#include "shim/replay/group/own.h"

static bool is_found(void *search)
{
	struct sr_search *s = search;
	uint64_t writes = sr_history_writes(s->member), moves = sr_progress_moves();

	/* The bytes are there once the call that posts them has ended. */
	if (s->found || (writes == s->writes && moves == s->moves))
		return s->found;
	s->writes = writes;
	s->moves = moves;
	sr_transfer_await_members();
	s->found = s->find(s->argument);
	return s->found;
}

bool sr_search_await(struct sr_search *s)
{
	/* The owner of the memory first: it stores there itself. */
	if (s->member != sr_group_self)
		sr_progress_until(s->member, is_found, s);
	for (uint32_t i = 0; i < sr_group_memory->members && !s->found; i++)
		if (i != sr_group_self)
			sr_progress_until(i, is_found, s);
	return s->found;
}

void sr_search_in_vain(void)
{
	for (uint32_t i = 0; i < sr_group_memory->members; i++)
		if (i != sr_group_self && atomic_load(&sr_group_memory->member[i].state) >= SR_GROUP_LINGERS)
			sr_group_has_ended(i);
}
