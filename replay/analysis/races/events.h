/* SPDX-License-Identifier: BSD-2-Clause */
/* events.h: the events of a rank's clock, as collect.h meets them; a part of collecting.h. */
#ifndef REPLAY_ANALYSIS_RACES_EVENTS_H
#define REPLAY_ANALYSIS_RACES_EVENTS_H

#include "replay/analysis/races/collecting.h"

/* 0 or -ENOMEM. */
int sr_collected_event_add(struct sr_collected_rank *r, uint64_t number, struct sr_collected_event e);
/* The place of the last one of this number among the rank's events. */
bool sr_collected_event_find(const struct sr_collected_rank *r, uint64_t number, size_t *place);

#endif
