/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proxy.h: the process that makes the requests of a group's ranks again on an RDMA
 * device of this host, by loopback: `--transport rxe`.
 *
 * It has a pair of connected queue pairs for each recorded RC connection between two of
 * the ranks, and does what their processes ask for in the group's memory (struct
 * sr_work_item): it sends, writes, fetches, and puts what has arrived to where the compare
 * finds it.  The replayed processes have no part in it but to wait: no context, no
 * thread, no descriptor and no mapping of theirs is a device's, so that their addresses
 * and heaps are what they are over any way.
 *
 * A WRITE arrives in a buffer of its own, and from there in the history and the image of
 * the peer's memory: in the memory itself it would be mixed with others that go to the
 * same place, and which came last in the recording is not this replay's to decide.
 */
#ifndef REPLAY_HOST_CARRIER_CARRIER_H
#define REPLAY_HOST_CARRIER_CARRIER_H

#include <stdbool.h>
#include <sys/types.h>

#include "replay/abi/group.h"

/* Starts it; to find a device takes it a while.  -1: it cannot be, and g->proxy.text says why. */
pid_t sr_proxy_start(struct sr_group *g, int fd);

/*
 * Until it has found one, which the text names; before the group's ranks start.  False:
 * there is none, the text says why, and it has ended.
 */
bool sr_proxy_await(struct sr_group *g, pid_t proxy);

/* It has ended by itself: who asks it is told. */
void sr_proxy_lost(struct sr_group *g);

/* Ends it, when the ranks have ended. */
void sr_proxy_end(pid_t proxy);

#endif
