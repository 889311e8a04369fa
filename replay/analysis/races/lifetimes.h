/* SPDX-License-Identifier: BSD-2-Clause */
/* lifetimes.h: how long memory is registered, and queue pairs are there. */
#ifndef REPLAY_ANALYSIS_RACES_LIFETIMES_H
#define REPLAY_ANALYSIS_RACES_LIFETIMES_H

#include "replay/analysis/races/collecting.h"

/* Hooks of sr_process(). */
int sr_collect_released(void *argument, const struct sr_released *d);
int sr_collect_closed(void *argument, const struct sr_closed *d);

/* When all calls have been read.  The moment, or SR_NO_MOMENT. */

/* From then on the queue pair that a request was posted to does nothing for it. */
uint32_t sr_collect_own_closing(const struct sr_collect *c, const struct sr_collected_request *rq);
/* From then on the request cannot come to its target. */
uint32_t sr_collect_incoming_closing(const struct sr_collect *c, const struct sr_collected_request *rq);

#endif
