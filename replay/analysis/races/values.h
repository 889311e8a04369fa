/* SPDX-License-Identifier: BSD-2-Clause */
/* values.h: the bytes that loads, READs and atomics of a trace found: which requests can have left them. */
#ifndef REPLAY_ANALYSIS_RACES_VALUES_H
#define REPLAY_ANALYSIS_RACES_VALUES_H

#include "replay/analysis/races/collecting.h"

/* A hook of sr_process(). */
int sr_collect_value(void *argument, const struct sr_value *v);

#endif
