/* SPDX-License-Identifier: BSD-2-Clause */
/* stamps.h: the times of a stream (record --stamps). */
#ifndef REPLAY_ANALYSIS_LOG_STAMPS_H
#define REPLAY_ANALYSIS_LOG_STAMPS_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/reader.h"

/* Of one stream, as far as it was read; zeros at its begin. */
struct sr_stamps {
	uint64_t time;   /* when the next call's record was written: ns since 1970; 0: not known */
	bool is_coarse;  /* by a clock that moves every few milliseconds */
	struct sr_stamp_sync sync;
	uint64_t ticks;
};

/* Takes the record if it is a stamp.  False: it is another one, or damaged. */
bool sr_stamps_take(struct sr_stamps *s, const struct sr_entry *e);

#endif
