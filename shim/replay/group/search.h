/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * search.h: looking for what the trace leaves out among the writes of all members, while they go on.
 *
 * With sr_group_lock.
 */
#ifndef SHIM_REPLAY_GROUP_SEARCH_H
#define SHIM_REPLAY_GROUP_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

struct sr_search {
	uint32_t member; /* in whose memory, and so in whose history (history.c) */
	uint64_t writes; /* so many of that history have been looked at; 0: none */
	/* Takes in what is new in the history, and looks again. */
	bool (*find)(void *argument);
	void *argument;
	/* For search.c. */
	uint64_t moves;
	bool found;
};

/*
 * Calls find() each time that the history or a member has got on, until it returns true or no member can add anything any
 * more.  Returns whether it was found.
 */
bool sr_search_await(struct sr_search *s);

/* Nothing was found: notes the members that have ended, which may be why. */
void sr_search_in_vain(void);

#endif
