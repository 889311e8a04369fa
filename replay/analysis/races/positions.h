/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * positions.h: the moments of a trace's ranks: calls and loads, and what the CPU stored and sockets brought between
 * them; and what the recorded clocks say of them.
 */
#ifndef REPLAY_ANALYSIS_RACES_POSITIONS_H
#define REPLAY_ANALYSIS_RACES_POSITIONS_H

#include "replay/analysis/races/collecting.h"

/* The moment of a rank's call, or of its load. */
uint32_t sr_collect_moment(struct sr_collect *c, size_t rank, const struct sr_position *at, bool is_load);

/* Hooks of sr_process(). */
int sr_collect_clocked(void *argument, const struct sr_clocked *k);
enum sr_log_place sr_collect_wants(void *argument, size_t rank, uint32_t thread, uint64_t sn);
int sr_collect_passed(void *argument, const struct sr_passed *d);

/*
 * These bytes of the rank's memory are known from now on, and came from that moment's request for certain;
 * SR_NO_MOMENT: where they came from is not known, or the load itself says it.
 */
void sr_collect_sampled(struct sr_collect *c, size_t rank, const struct sr_sampled *found);
/*
 * From its next call on the rank may have loaded unseen what that moment's request left; moment: it is in doubt from there, if there are
 * too many.
 */
void sr_collect_note_unseen(struct sr_collect *c, size_t rank, uint32_t from, uint32_t moment);
/* Is each load of the page with this address seen by the watched replay, up to here? */
bool sr_collect_is_seen(const struct sr_collect *c, size_t rank, uint64_t address);

/* When all calls have been read: takes what is left. */
void sr_collect_end_positions(struct sr_collect *c);

#endif
