/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * skips.h: loads that found the last one of several WRITEs of a word (struct sr_race_skip).
 *
 * What a rank does behind such a load comes after that last WRITE in this run, but an earlier one may have been enough for it.
 */
#ifndef REPLAY_ANALYSIS_RACES_SKIPS_H
#define REPLAY_ANALYSIS_RACES_SKIPS_H

#include "replay/analysis/races/collecting.h"

/* Has the rank, whose memory it is, skipped WRITEs when it found this?  Then *s says which, not yet by which load. */
bool sr_collect_skip(struct sr_collect *c, uint32_t rank, const struct sr_race_producing *found, struct sr_race_skip *s);

/* It was this load.  0 or -ENOMEM. */
int sr_collect_add_skip(struct sr_collect *c, const struct sr_race_skip *s, const struct sr_position *at, uint64_t pc, uint32_t moment);

/* The bytes of a skipped WRITE of a counter, whose checksum is known.  False: none that come near those of the others fit. */
bool sr_race_skipped_bytes(const struct sr_race_skip *s, const struct sr_race_skipped *w, uint8_t bytes[8]);

#endif
