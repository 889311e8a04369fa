/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/single.h"

#include "shim/core/thread.h"

/* A program may not poll the last queue again, as it waits for another one. */
#define HELD_BACK_MOST 64

bool sr_single_completions;

int sr_single_room(const struct ibv_cq *cq, int room)
{
	struct sr_single *s = &sr_self.single;

	if (!(sr_single_completions || sr_self.commutes.on) || room <= 0)
		return room;
	if (s->last && s->last != cq && s->held_back++ < HELD_BACK_MOST)
		return 0;
	s->last = NULL;
	return 1;
}

void sr_single_came(const struct ibv_cq *cq)
{
	sr_self.single = (struct sr_single){.last = cq};
}
