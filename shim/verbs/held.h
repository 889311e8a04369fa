/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held.h: requests that are kept back for a while, for `sreplay confirm`.
 *
 * The program's post has returned, as from a card that is slow.  What it posts to the same queue
 * pair meanwhile is kept behind it.  Clocks and completions are unaffected: to these, the requests
 * are posted.
 */
#ifndef SHIM_VERBS_HELD_H
#define SHIM_VERBS_HELD_H

#include <infiniband/verbs.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"

struct sr_qp;

#define SR_HELD_QUEUES 2

/* Is anything held? */
extern bool sr_held_any SR_HIDDEN;

/* From here on the requests of this queue pair are kept: `which` is free. */
void sr_held_begin(int which, struct ibv_qp *qp);

/* Posts them, in their order, and keeps none any more.  Any thread, in a section; more than once.
 */
void sr_held_release(int which);

/* The posting thread, with the lock on posts: is this chain kept?  It is copied then, inline data
 * too. */
bool sr_held_keep(const struct sr_call_desc *d, struct ibv_qp *qp, const struct ibv_send_wr *chain);

/*
 * Waits until all that is posted has taken effect at the peer, by a READ behind it that the program
 * does not see. False: that cannot be proven, as the queue pair has no clocks or the peer does not
 * answer in time.
 */
bool sr_held_await_landing(struct ibv_qp *qp);

#endif
