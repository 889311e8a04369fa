/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * picks.h: with record --order, which completions' records say whose they are (nicclock/picks.h, docs/internals/picks.md).
 *
 * Of what a poll brings, the record lacks wr_id, number of the queue pair and address, if all is of one send or receive
 * queue, it does not race with the completion before, and a replay finds the rest with the request: successful completions
 * of RC queue pairs that carry clocks, of SENDs, of WRITEs, and of receives of left out messages into one piece of
 * memory.
 *
 * It is for processes with one thread, whose completions all succeed; at the first sign of anything else it ends for good.
 */
#ifndef SHIM_VERBS_PICKS_H
#define SHIM_VERBS_PICKS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "shim/core/received.h"
#include "shim/verbs/clocks/clocks.h"

/* A poll has brought these n completions, and the clocks have been sampled: sets received->lacks_queue. */
void sr_picks_polled(struct ibv_cq *cq, const struct ibv_wc *wc, int n, struct sr_received *received);

/* Writes how many came without their queues.  The caller's next record tells nothing that depends on them. */
void sr_picks_flush(void);

/* From now on all completions say whose they are. */
void sr_picks_stop(void);

#endif
