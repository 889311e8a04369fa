/* SPDX-License-Identifier: BSD-2-Clause */
/* transport.h: by which way the ranks of a group reach each other, and the plan for it. */
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
 * Makes the group's memory and, over a device, starts its proxy, which looks for one
 * while the plan is made.  False after a message.
 */
bool sr_transport_open(struct sr_transport *t, const int32_t *ranks, size_t n,
		       enum sr_group_transport wanted);
/* Before any rank is started: says what was chosen where there was a choice.  False after a
 * message: what was asked for cannot be had. */
bool sr_transport_ready(struct sr_transport *t);
/* Nothing was replayed. */
void sr_transport_abandon(struct sr_transport *t);
/* A process of ours has ended: was it the proxy?  Then its absence is known to all. */
bool sr_transport_lost(struct sr_transport *t, pid_t pid);
/* When all ranks have ended: says what went over the device. */
void sr_transport_close(struct sr_transport *t);

/* "shm" and so on; false: no transport is called so. */
bool sr_transport_parse(const char *name, enum sr_group_transport *transport);

#endif
