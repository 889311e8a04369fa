/* SPDX-License-Identifier: BSD-2-Clause */
/* names.h: the addresses by which the directory knows a device's queue pairs. */
#ifndef SHIM_VERBS_CLOCKS_NAMES_H
#define SHIM_VERBS_CLOCKS_NAMES_H

#include <infiniband/verbs.h>

#include "logd/ring/protocol.h"

/* Turns a LID into an address that differs from every GID. */
void sr_clock_gid_of_lid(uint16_t lid, uint8_t *gid);

/*
 * Fills in the GIDs of the device's ports and the number of READs that it answers at a time.
 * Returns the number of outstanding READs that it can have itself.
 */
uint32_t sr_clock_name_device(struct ibv_context *context, struct sr_queue_pair *names);

#endif
