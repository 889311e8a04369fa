/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buffers.h: which buffers several outstanding receives have in common (record --order).
 *
 * A later message may have come over the one that is polled, so that a replay of its sender does not say what was found
 * there.  So may an earlier one, if it is of another queue pair: the device writes both at once, and completes them in any
 * order.  Any thread; it may say so of a buffer that one receive has alone.
 *
 * And what was in a buffer at the post, so that one into which no message came is known.
 */
#ifndef SHIM_VERBS_BUFFERS_H
#define SHIM_VERBS_BUFFERS_H

#include <stdbool.h>

#include "shim/verbs/objects.h"

/* The receive is about to be posted. */
void sr_buffers_post(struct sr_wqe *wqe);
/* It has completed, or was refused.  Returns whether others had its buffer at the same time. */
bool sr_buffers_complete(const struct sr_wqe *wqe);
/* Does the buffer of an outstanding receive begin as it did at the post? */
bool sr_buffers_are_untouched(const struct sr_wqe *wqe);

#endif
