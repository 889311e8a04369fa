/* SPDX-License-Identifier: BSD-2-Clause */
/* transport.h: by which way the ranks of a group reach each other, and the plan for it. */
#ifndef REPLAY_GROUP_TRANSPORT_H
#define REPLAY_GROUP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/reader.h"
#include "replay/group/shared.h"

/* "shm" and so on; false: no transport is called so. */
bool sr_transport_parse(const char *name, enum sr_group_transport *transport);

/* The plan of the trace for at least these ranks, made by `sreplay process` if there is none that
 * fits.  False after a message. */
bool sr_transport_plan(struct sr_trace *t, const char *dir, const int32_t *ranks, size_t n);

#endif
