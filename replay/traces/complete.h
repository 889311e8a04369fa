/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * complete.h: puts what a replay has produced into the records of a stream that lack it
 * (logd/trace/left_out.h, shim/core/sums.h).
 */
#ifndef REPLAY_TRACES_COMPLETE_H
#define REPLAY_TRACES_COMPLETE_H

#include <stdbool.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/kinds.h"
#include "replay/traces/produced.h"

/* Of one stream; all else begins as zeros. */
struct sr_completer {
	const struct sr_log_kinds *kinds;
	const struct sr_produced *produced;
	uint32_t thread;
	bool sums; /* the records lack arguments: sr_trace_has_sums */
	size_t at;       /* in what was produced */
	uint64_t values; /* so many were put in */
	uint32_t last[64]; /* the lengths of what the last call's record lacked, for its repetitions */
	uint32_t last_n;
	uint8_t *room; /* the completed payload; for sr_completer_end */
	uint8_t *named; /* a poll's, with whose its completions are */
	size_t room_size;
};

/*
 * Gives *e another payload, valid until the next call, if the record lacks values.  0; -ENODATA: they
 * were not produced; -EBADMSG: the record is damaged; -ENOMEM.
 */
int sr_complete(struct sr_completer *c, struct sr_entry *e);
void sr_completer_end(struct sr_completer *c);

#endif
