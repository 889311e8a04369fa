/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doubts.h: may something outside of the recorded ranks order two accesses?
 *
 * What a rank learned from outside may go back to what another one told there, unseen.
 */
#ifndef REPLAY_ANALYSIS_RACES_DOUBTS_H
#define REPLAY_ANALYSIS_RACES_DOUBTS_H

#include "replay/analysis/races/collect.h"

struct sr_race_doubts;

/* NULL: no memory. */
struct sr_race_doubts *sr_race_doubts_new(const struct sr_race_run *r);
void sr_race_doubts_free(struct sr_race_doubts *d);

/* For two accesses that no order of the model orders: a doubt (model.h), or 0. */
uint16_t sr_race_may_be_ordered_outside(struct sr_race_doubts *d, const struct sr_access *a, const struct sr_access *b);

#endif
