/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proxy.h: the process that makes the requests of a group's ranks again on an RDMA device
 * of this host, by loopback: `--transport rxe`.
 *
 * It has a pair of connected queue pairs for each recorded RC connection between two of the
 * ranks.  Replayed processes put work items into the group's memory; the proxy sends, writes
 * and fetches, and puts arriving bytes where they are compared.  A replayed process only
 * waits: it has no context, thread, descriptor or mapping of the device, so that its
 * addresses and its heap are the same with any transport.
 *
 * A WRITE arrives in a buffer, and is copied from there to the history and to the image of
 * the peer's memory.  In the memory itself, WRITEs to the same place would race, and this
 * replay must not decide which came last in the recording.
 */
#ifndef REPLAY_HOST_PROXY_PROXY_H
#define REPLAY_HOST_PROXY_PROXY_H

#include <stdbool.h>
#include <sys/types.h>

#include "replay/abi/group.h"

/* Starts it; finding a device takes it a while.  -1: it failed, and g->proxy.text says why. */
pid_t sr_proxy_start(struct sr_group *g, int fd);

/*
 * Call before the ranks start: waits until the proxy has a device, which the text names.
 * False: there is none, the text says why, and the proxy has ended.
 */
bool sr_proxy_await(struct sr_group *g, pid_t proxy);

/* The proxy has ended by itself: processes that wait for it see that. */
void sr_proxy_lost(struct sr_group *g);

/* Call when the ranks have ended. */
void sr_proxy_end(pid_t proxy);

#endif
