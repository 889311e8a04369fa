/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * landed.h: values of exposed memory that the trace leaves out (record --order).
 *
 * A load found them because requests of members had landed.  The members post these requests again, with the same
 * bytes, and history.c has them.  Which of them had landed, the trace does not say: it has a checksum.  So the cut is
 * searched for: for each member, up to which of its writes into that page.
 *
 * - What is there before is what the program knows: what it has stored, and the values of earlier records.
 * - The writes of a member into a page land in the order of its posts: they come over RC, mostly over one queue pair.
 *   So a candidate is a number of writes for each member, applied in the order of what they knew of each other.  The
 *   first one is all that are known to have been posted before; then come those next to it, with more of them or fewer.
 *   If none fits, and a member posted to several queue pairs, each of these is a writer of its own.
 * - Where writes of several members lie over each other, and nothing has the checksum so far, all orders of them are
 *   tried that keep the order of each member's.  So are the program's own stores, over or under what had landed.
 * - An atomic of which the result is not known yet is applied to what is there.
 * - If none has the checksum, a write may have landed in part: beginnings of the next one are tried.
 * - If none has it still, a member may not have come so far: then more of its writes are waited for.
 * - A value that was found when a page stopped being passed through is mostly what the program has stored there itself.  That
 *   is tried first, then with writes over it, then with writes under it.
 * - What the trace has of the same event, in the same place, lies over all of them: short values, and results of atomics.
 * - A message may have come there whose completion has not been polled: unpolled.h.
 * - Writes that an earlier value has shown to have landed are not applied again, unless nothing else fits: pages are
 *   copied while they change.
 *
 * The first candidates are right nearly always.  A wrong one has the recorded 24 bits of the checksum with a probability of
 * 2^-24.  So while other members may still write what is looked for, only LANDED_FIRST are tried of each kind; LANDED_TRIES
 * are once nothing more can come.  Where a wrong one is taken all the same, the sums (shim/core/sums.h) find it.
 */
#ifndef SHIM_REPLAY_GROUP_LANDED_H
#define SHIM_REPLAY_GROUP_LANDED_H

#include <stdbool.h>

#include "logd/trace/exposed_event.h"
#include "shim/core/thread.h"

enum sr_landed {
	SR_LANDED,         /* all values have their data, valid until the next event of the process */
	SR_LANDED_NOWHERE, /* no member has written to the memory of one of them */
	SR_LANDED_OTHERS,  /* what they have written does not come to its checksum */
};

/* A value that could not be filled in. */
struct sr_landed_lack {
	uint32_t which;
	uint64_t contended, contended_bytes; /* pages around it that several write to; or 0 */
	int32_t writer; /* the rank that wrote there, if only one did; this one, if its own stores are in it; otherwise -1 */
};

/* Fills in the values that are left out.  With the lock of the exposed regions. */
enum sr_landed sr_landed_fill(struct sr_thread *t, const struct sr_exposed_event *e,
			      struct sr_exposed_value *values, struct sr_landed_lack *lack);

#endif
