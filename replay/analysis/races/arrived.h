/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arrived.h: memory that has the bytes of a message whose completion its rank has polled.
 *
 * Who loads them there has them from the message, and comes after it by the poll already: that no other request fits is no
 * doubt.  Libraries receive messages into memory that peers may write, too.
 */
#ifndef REPLAY_ANALYSIS_RACES_ARRIVED_H
#define REPLAY_ANALYSIS_RACES_ARRIVED_H

#include "replay/analysis/races/collecting.h"

/* A message has come to these bytes; or they are posted for another one.  0 or -ENOMEM. */
int sr_collect_arrived(struct sr_collect *c, size_t rank, uint64_t begin, uint64_t end);
int sr_collect_awaits(struct sr_collect *c, size_t rank, uint64_t begin, uint64_t end);

/* Has a message brought the byte at `begin`?  *end is cut to where the answer may be another one. */
bool sr_collect_has_arrived(const struct sr_collect *c, size_t rank, uint64_t begin, uint64_t *end);

#endif
