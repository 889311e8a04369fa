/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * closure.h: vector clocks out of the orders of a trace, after the recording.
 *
 * The vector at an event of a member says for each other member how far that had come for certain:
 * it is the join of the vectors at the events that were found until then.
 *
 * One thread at a time.
 */
#ifndef NICCLOCK_CLOSURE_H
#define NICCLOCK_CLOSURE_H

#include <stdint.h>

#include "nicclock/clock.h"

struct sr_closure;

/* members: 1 to SR_CLOCK_MEMBERS.  NULL: no memory. */
struct sr_closure *sr_closure_create(int members);
void sr_closure_free(struct sr_closure *c);

/*
 * `member` found the order `o` at its event `found`.  To be called in ascending order of `found`
 * for each member.  0, -ENOMEM, or -EINVAL: it is not ascending, or there is no such member.
 */
int sr_closure_add(struct sr_closure *c, int member, uint64_t found, const struct sr_order *o);

/*
 * After the last add.  0, -ENOMEM, or -ELOOP: the orders contradict each other, so they are not of
 * one recording.
 */
int sr_closure_compute(struct sr_closure *c);

/*
 * After a successful compute: how far `other` had come for certain when `member` was at `event`;
 * 0: nothing is known.
 */
uint64_t sr_closure_at(const struct sr_closure *c, int member, uint64_t event, int other);

#endif
