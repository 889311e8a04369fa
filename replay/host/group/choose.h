/* SPDX-License-Identifier: BSD-2-Clause */
/* choose.h: the ranks of a trace that a list on the command line names. */
#ifndef REPLAY_HOST_GROUP_CHOOSE_H
#define REPLAY_HOST_GROUP_CHOOSE_H

#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

/*
 * "0,2-5,7/1" to the ranks of the trace that it names, ascending; NULL means all.  A rank, or a child of one, stands for its
 * children as well, of those that the trace has adopted.
 * Their number, and *ranks, which is the caller's to free; 0 after a message.
 */
size_t sr_ranks_choose(const struct sr_trace *t, const char *dir, const char *list,
		       int32_t **ranks);

#endif
