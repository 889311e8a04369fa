/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h: an RDMA device of this host, and connections on it with both ends in this process.
 * Used by the proxy (proxy.h), by one thread.
 *
 * libibverbs is loaded when a device is looked for: a replay without one does not need it.
 */
#ifndef REPLAY_HOST_CARRIER_DEVICE_H
#define REPLAY_HOST_CARRIER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct sr_device;

/*
 * Opens the first device with an active port that reaches itself.  NULL: there is none.  `text`
 * names the device, or says why there is none.
 */
struct sr_device *sr_device_open(char *text, size_t size);

/* NULL with errno. */
struct ibv_mr *sr_device_register(struct sr_device *d, void *memory, size_t size);
void sr_device_release(struct sr_device *d, struct ibv_mr *mr);

/* A connection: requests go from end 0 to end 1, and back. */
struct sr_wire {
	struct ibv_qp *end[2];
};

/* 0 or -errno. */
int sr_device_connect(struct sr_device *d, struct sr_wire *w);

struct sr_transfer {
	enum ibv_wr_opcode opcode;
	void *local; /* from where, of a READ or an atomic to where */
	struct ibv_mr *local_mr;
	void *remote; /* the other end's */
	struct ibv_mr *remote_mr;
	uint32_t length;
	uint32_t imm_data;
	uint64_t compare_add, swap;
};

/* Returns when the device has done it.  False: it failed, and `text` says why. */
bool sr_device_do(struct sr_device *d, const struct sr_wire *w, int from,
		  const struct sr_transfer *t, char *text, size_t size);

#endif
