/* SPDX-License-Identifier: BSD-2-Clause */
/* worker.h: does work items (abi/group.h) on the device; the proxy's process has one. */
#ifndef REPLAY_HOST_PROXY_WORKER_H
#define REPLAY_HOST_PROXY_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/abi/group.h"
#include "replay/host/proxy/images.h"

struct sr_connection {
	struct sr_connection *next;
	struct sr_group_key key; /* of the direction from end 0 to end 1 */
	struct sr_wire wire;
};

struct sr_worker {
	struct sr_group *group;
	int fd;
	struct sr_device *device;
	uint8_t *source, *backing;
	struct ibv_mr *source_mr, *backing_mr;
	struct sr_images images;
	struct sr_connection *connections;
	struct sr_connection *by_channel[SR_GROUP_CHANNELS];
};

/* group and fd are filled in.  False: there is no device, and group->proxy.text says why. */
bool sr_worker_begin(struct sr_worker *c);

/* False: it failed, and all->text says why. */
bool sr_worker_run(struct sr_worker *c, struct sr_work_items *all, const struct sr_work_item *e);

/* enum sr_op_kind, as which an item is counted. */
int sr_worker_kind(uint32_t opcode);

#endif
