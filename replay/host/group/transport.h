/* SPDX-License-Identifier: BSD-2-Clause */
/* transport.h: how the ranks of a group reach each other in a replay. */
#ifndef REPLAY_HOST_GROUP_TRANSPORT_H
#define REPLAY_HOST_GROUP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "logd/trace/reader.h"
#include "replay/abi/group.h"

/* Of a group that is about to be replayed. */
struct sr_transport {
	struct sr_group *group; /* NULL: each rank alone */
	int group_fd;
	pid_t proxy; /* see proxy.h; 0: none */
	enum sr_group_transport wanted;
};

/*
 * Makes the group's memory and, for a device, starts the proxy, which looks for one while the plan
 * is made.  False after a message.
 */
bool sr_transport_open(struct sr_transport *t, const struct sr_trace *trace, const int32_t *ranks, size_t n,
		       enum sr_group_transport wanted);
/*
 * Call before any rank starts: prints which transport was chosen, if there was a choice.  False
 * after a message: the requested one is not available.
 */
bool sr_transport_ready(struct sr_transport *t);
/* Nothing was replayed. */
void sr_transport_abandon(struct sr_transport *t);
/* A child has ended.  If it was the proxy, tells all members, and returns true. */
bool sr_transport_lost(struct sr_transport *t, pid_t pid);
/* Call when all ranks have ended: prints what went over the device. */
void sr_transport_close(struct sr_transport *t);

/* Parses "shm" and so on; false: there is no such transport. */
bool sr_transport_parse(const char *name, enum sr_group_transport *transport);

#endif
