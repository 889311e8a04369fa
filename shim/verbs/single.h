/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * single.h: completions one at a time (record --single-completions, and where they commute: shim/record/commutes.h).
 *
 * What a poll returns beyond what the program waits for comes before all that it does next, as far as a recording shows: it may
 * have waited for that, too.  So a poll brings one completion at most, and once it has, other queues bring none until
 * the program has polled this one again: it has then seen whether it can go on.  A card may be that slow.
 */
#ifndef SHIM_VERBS_SINGLE_H
#define SHIM_VERBS_SINGLE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "logd/base/compiler.h"

extern bool sr_single_completions SR_HIDDEN;

/* How many completions may this thread's poll bring?  room: as the program has it. */
int sr_single_room(const struct ibv_cq *cq, int room);
/* The poll has brought one. */
void sr_single_came(const struct ibv_cq *cq);

#endif
