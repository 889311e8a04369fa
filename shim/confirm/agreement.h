/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agreement.h: when the two accesses of a race, in whatever processes, are both pending, and in
 * which order they go.
 *
 * The state is in the file that all ranks map (replay/abi/confirm.h).  Any thread, also in a
 * fault's handler.
 */
#ifndef SHIM_CONFIRM_AGREEMENT_H
#define SHIM_CONFIRM_AGREEMENT_H

#include "replay/abi/confirm.h"

extern struct sr_confirm *sr_agreement;

/* Maps the file; false after a message. */
bool sr_agreement_open(const char *path);

/* Is there still something to be found in this run? */
static inline bool sr_agreement_searches(void)
{
	return atomic_load_explicit(&sr_agreement->phase, memory_order_relaxed) < SR_CONFIRM_DONE;
}

/* Is the other one than `i` pending, to some of this memory? */
bool sr_agreement_awaits(int i, uint64_t begin, uint64_t end);

/* Access `i` would be held here, if it were held at all. */
void sr_agreement_saw(int i);

/*
 * Access `i`, to this memory, is about to be made: from here on it is held.  False: it need not be,
 * since both have been found already.
 */
bool sr_agreement_arrive(int i, uint64_t begin, uint64_t end);

/*
 * Waits until it may go.  False: the other one did not come within the time, or *cancelled; it
 * goes, and is not held any more.  After true, sr_agreement_done() or sr_agreement_return() must
 * follow.
 */
bool sr_agreement_wait(int i, const _Atomic bool *cancelled);

/* It has taken effect: proven, or likely. */
void sr_agreement_done(int i, bool is_proven);

/* It was let go, and was not made: it is still to come. */
void sr_agreement_return(int i);

/* What both access: of no length before both were pending. */
void sr_agreement_range(uint64_t *begin, uint64_t *end);

/* What access `i` found or left there. */
void sr_agreement_value(int i, const void *data, uint64_t n);

#endif
