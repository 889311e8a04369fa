/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locks.h: words that are locks: a compare-and-swap takes them, from free to taken, and the rank that took them gives
 * them back, by another one or by a WRITE.
 *
 * What two ranks do while each of them has the lock cannot come at the same time, in whichever order they had it.
 */
#ifndef REPLAY_ANALYSIS_RACES_LOCKS_H
#define REPLAY_ANALYSIS_RACES_LOCKS_H

#include "replay/analysis/races/collecting.h"

/* A request may change a lock.  0 or -ENOMEM. */
int sr_collect_lock_request(struct sr_collect *c, const struct sr_posted *p, bool has_result, uint64_t result);

/*
 * When it is known which requests are over: finds locks, and which of them are held at each access.  With
 * SR_PREDICT_LOCKS and SR_PREDICT_LOCKSET nobody comes after those that had a lock before it for that reason alone.  0 or -ENOMEM.
 */
int sr_collect_end_locks(struct sr_collect *c);

#endif
