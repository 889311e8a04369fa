/* SPDX-License-Identifier: BSD-2-Clause */
/* collect.h: makes a model (model.h) of a trace: two passes over the calls of all ranks. */
#ifndef REPLAY_ANALYSIS_RACES_COLLECT_H
#define REPLAY_ANALYSIS_RACES_COLLECT_H

#include "replay/analysis/races/run.h"

/* 0, or -errno and a sentence.  To be freed in both cases. */
int sr_race_collect(struct sr_race_run *r, const struct sr_race_collecting *how, struct sr_error *err);
void sr_race_run_free(struct sr_race_run *r);

#endif
