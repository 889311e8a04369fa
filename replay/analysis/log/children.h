/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * children.h: the processes that the ranks of a job have forked, and that belong to it as the ranks do: they used verbs, or
 * memory that processes share.
 */
#ifndef REPLAY_ANALYSIS_LOG_CHILDREN_H
#define REPLAY_ANALYSIS_LOG_CHILDREN_H

#include "logd/trace/reader.h"

/*
 * Adopts their traces (sr_trace_adopt), those of their own children among them: rank by rank, and always in the same order.  One
 * that cannot be read is left out.  0, or -errno and a sentence.
 */
int sr_children_adopt(struct sr_trace *t, struct sr_error *err);

#endif
