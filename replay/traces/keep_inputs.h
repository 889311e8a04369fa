/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keep_inputs.h: puts the files that recorded processes read into their trace, as `sreplay record --record-files`
 * does when they are read (logd/writer/files.h).
 */
#ifndef REPLAY_TRACES_KEEP_INPUTS_H
#define REPLAY_TRACES_KEEP_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_kept_inputs {
	size_t files;
	uint64_t bytes;
};

/*
 * Of the chosen image of a rank, and of the processes that it has forked.  *sum grows by what has been copied.  False: some are
 * missing, or others than recorded, or cannot be written; a message names each, and the others are kept.
 */
bool sr_keep_inputs(struct sr_trace *t, int32_t rank, struct sr_kept_inputs *sum);

#endif
