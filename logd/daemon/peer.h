/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h: the connections to the daemon's socket: taking them, and ending them.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_DAEMON_PEER_H
#define LOGD_DAEMON_PEER_H

#include "logd/daemon/server.h"

/* The listener is ready; owner: the server. */
void peer_accept(void *owner, struct source *listener);

/* Serves what has come on c, which may be freed by that. */
void peer_serve(struct server *s, struct connection *c);

void peer_free(struct server *s, struct peer *p);

/* Watches the listener again after a shortage of descriptors.  Returns the ms until that is due,
 * or -1. */
int peers_wake_listener(struct server *s);

#endif
