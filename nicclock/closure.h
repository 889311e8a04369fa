/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * closure.h: from the orders of a trace to vector clocks.
 *
 * The vector at an event of a member is, for each other member, how far that
 * one had come for certain: the join of the vectors at the events that were
 * found until then.  Used on traces, after the recording.
 */
#ifndef NICCLOCK_CLOSURE_H
#define NICCLOCK_CLOSURE_H

#include <stdint.h>

#include "nicclock/clock.h"

struct sr_closure;

/* NULL without memory. */
struct sr_closure *sr_closure_create(int members);
void sr_closure_free(struct sr_closure *c);

/*
 * At its event number `found`, `member` noted `o`.  For each member in
 * ascending order of `found`.  0, -ENOMEM, or -EINVAL if it is not so.
 */
int sr_closure_add(struct sr_closure *c, int member, uint64_t found, const struct sr_order *o);

/*
 * After the last add.  0, -ENOMEM, or -ELOOP: the orders contradict each
 * other, so they were not all found in one run.
 */
int sr_closure_compute(struct sr_closure *c);

/*
 * How far `other` had come, for certain, when `member` was at `event`: 0 if
 * nothing is known.  After a successful compute.
 */
uint64_t sr_closure_at(const struct sr_closure *c, int member, uint64_t event, int other);

#endif
