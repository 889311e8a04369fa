/* SPDX-License-Identifier: BSD-2-Clause */
/* changed.h: what requests send, and what changed it before they were over (record --check-buffers). */
#ifndef REPLAY_ANALYSIS_RACES_CHANGED_H
#define REPLAY_ANALYSIS_RACES_CHANGED_H

#include "replay/analysis/races/collecting.h"

/* Such a request is over at a moment, which this position is of.  0 or -ENOMEM. */
int sr_collect_altered(struct sr_collect *c, const struct sr_collected_request *rq, const struct sr_position *at, uint32_t moment);

#endif
