/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record_ranks.h: `sreplay replay --record-ranks LIST -o DETAIL.srec`: a replay of a whole job that makes
 * detailed traces of some of its ranks.
 */
#ifndef REPLAY_COMMAND_RECORD_RANKS_H
#define REPLAY_COMMAND_RECORD_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/host/rank/rank.h"
#include "replay/traces/detail.h"

struct sr_record_ranks {
	struct sr_detail detail;
	struct sr_produced_by *of; /* of each replayed rank */
	size_t count;
};

/*
 * Before the replay of these ranks, of which those in the list are recorded.  An exit status, after a
 * message.  sr_record_ranks_end follows in any case.
 */
int sr_record_ranks_begin(struct sr_record_ranks *r, struct sr_trace *t, const char *dir,
			  const char *list, const int32_t *ranks, size_t n, const char *output);

/* After it, which came to this status.  Returns that of all. */
int sr_record_ranks_end(struct sr_record_ranks *r, int status);

#endif
