/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * read_again.h: what a READ found that the trace leaves out (record --order).
 *
 * The owner of the memory stores there again, and members write there again: history.c has both.  How much of it the READ
 * found, the trace does not say: it has a checksum.  So the cut is searched for, as in landed.h: for each member, up to which
 * of its writes and stores.  The first candidate is all that is known to have been posted or stored before the READ's
 * completion; then come those in which one member has more of them, or fewer; then those in which several do.  Then the same,
 * beginning with what an earlier READ has found.
 *
 * Of atomics whose results are not known yet, which are of others, only the compare-swaps are tried, as writes.  If nothing
 * comes to the checksum, it is waited for more, and for results of atomics.
 *
 * The recorder leaves nothing out that the owner could have changed unseen: sr_clocks_unwatched().
 */
#ifndef SHIM_REPLAY_GROUP_READ_AGAIN_H
#define SHIM_REPLAY_GROUP_READ_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/core/thread.h"

#define SR_READ_AGAIN_MOST 16384 /* bytes: the recorder leaves out no longer ones */

struct sr_read_again {
	uint32_t member; /* whose memory it is */
	uint64_t addr;
	uint32_t length;
	uint64_t checksum, mask;
};

/*
 * Stores what was found in `bytes`; false: nothing has the checksum, and whether several members write there.  With
 * sr_group_lock.
 */
bool sr_read_again(const struct sr_thread *t, const struct sr_read_again *r, uint8_t *bytes, bool *by_several);

#endif
