/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lent.h: exposed memory that a call is given where the kernel, or the library, can use it: an alias of it, or its own address with
 * the pages passed through (pinned) for as long as the call takes.
 *
 * Where a call may wait, only an alias will do: pages that are passed through show other threads what peers write without anybody's
 * notice, and a page that is moved takes memory away from those that wait at an alias in it.
 */
#ifndef SHIM_VERBS_LENT_H
#define SHIM_VERBS_LENT_H

#include "shim/verbs/regions.h"

/* Beyond, two copies of it would cost more than the faults of a page that is passed through. */
#define SR_LENT_COPY_MOST (1ul << 20)
/* No call is given that much: it is no length. */
#define SR_LENT_LENGTH_MOST (1ul << 40)

/* Is any of it exposed? */
bool sr_lent_is_exposed(const void *addr, size_t length);

/* Lends an alias, which replaces the address.  False: there is none. */
bool sr_lend_alias(struct sr_pinned *p, uint64_t *address, size_t length);
/* Lends what is exposed of it at its own address. */
void sr_lend_in_place(struct sr_pinned *p, const void *addr, size_t length);
/* The one or the other. */
void sr_lend(struct sr_pinned *p, uint64_t *address, size_t length);

/* Takes all of that back, and gives the call's arguments their values again. */
void sr_lent_end(struct sr_pinned *p);

/*
 * With --order, what loads find in registered memory is left out as what members have sent.  What a call puts there is not that.
 * Before the call, as a peer may READ it before the call ends; and when it has ended.
 */
void sr_lent_may_be_written(const struct sr_pinned *p, const void *addr, size_t length);
void sr_lent_was_written(const struct sr_pinned *p, const void *addr, size_t length);

#endif
