/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * listener.h: the port on which this daemon takes connections of other nodes' daemons.
 *
 * A predecessor that is about to end may still have the port, so listening may have to be
 * tried again (HANDOVER_MS).  The daemon's main thread only.
 */
#ifndef LOGD_NODES_LISTENER_H
#define LOGD_NODES_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "logd/service/loop.h"

struct listener {
	struct source source; /* fd -1: it does not listen */
	struct loop *loop;
	int64_t try_until;   /* ms of the monotonic clock; 0: nothing is to be tried */
	int64_t rests_until; /* the same, while there are no descriptors */
	bool has_complained;
	void (*rests)(void *owner);
	void (*accepted)(void *owner, int fd, const struct sockaddr_storage *from);
	void *owner;
};

/*
 * accepted() gets each new connection's descriptor, which is its to close.  rests(): there are no
 * descriptors for now, and listener_is_trying.
 */
void listener_init(struct listener *l, struct loop *loop,
		   void (*accepted)(void *owner, int fd, const struct sockaddr_storage *from),
		   void (*rests)(void *owner), void *owner);

/* Listens, or begins to try.  Does nothing if it does so already. */
void listener_begin(struct listener *l);

/* Is listener_try to be called again, a little later? */
bool listener_is_trying(const struct listener *l);
void listener_try(struct listener *l);

void listener_close(struct listener *l);

#endif
