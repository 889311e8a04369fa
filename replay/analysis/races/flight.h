/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flight.h: replays that are not exact since the program loaded what its own READ or atomic had not brought yet.
 *
 * A replay brings the bytes when the completion is polled; the program may have found them earlier, and go on in
 * another way.  Up to the first such load nothing is in doubt, and the load itself is a race that explains the difference.
 */
#ifndef REPLAY_ANALYSIS_RACES_FLIGHT_H
#define REPLAY_ANALYSIS_RACES_FLIGHT_H

#include "replay/analysis/races/collecting.h"

/* Doubts (SR_DOUBT_*) about the next access that the watched replay of a rank found. */
uint16_t sr_collect_watch_doubts(struct sr_collect *c, size_t rank, bool is_load, uint64_t begin, uint64_t end);

#endif
