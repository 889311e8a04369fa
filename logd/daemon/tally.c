/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/tally.h"

#include <string.h>

const struct tally *tally_of(const struct tallies *t, const uint8_t *session)
{
	for (unsigned int i = 0; i < TALLIES; i++)
		if ((t->list[i].processes || t->list[i].stored) && !memcmp(t->list[i].session, session, SR_SESSION_BYTES))
			return &t->list[i];
	return NULL;
}

void tally_add(struct tallies *t, const uint8_t *session, unsigned int processes, unsigned int late, unsigned int unrecorded,
	       uint64_t stored)
{
	struct tally *mine = (struct tally *)tally_of(t, session);

	if (!mine) {
		mine = &t->list[t->next++ % TALLIES];
		*mine = (struct tally){0};
		memcpy(mine->session, session, SR_SESSION_BYTES);
	}
	mine->processes += processes;
	mine->late += late;
	mine->unrecorded += unrecorded;
	mine->stored += stored;
}
