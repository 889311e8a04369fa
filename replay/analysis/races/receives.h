/* SPDX-License-Identifier: BSD-2-Clause */
/* receives.h: the receives of a trace: which one a message came to. */
#ifndef REPLAY_ANALYSIS_RACES_RECEIVES_H
#define REPLAY_ANALYSIS_RACES_RECEIVES_H

#include "replay/analysis/races/collecting.h"

/* Hooks of sr_process(). */
int sr_collect_receives(void *argument, const struct sr_receives *p);
int sr_collect_received(void *argument, const struct sr_received *d);

#endif
