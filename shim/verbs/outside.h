/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outside.h: a process of the job that is not in the group.
 *
 * Nothing of it is recorded.  But members write their clocks into its memory,
 * and ask whose its queue pairs are: so those calls that make and connect queue
 * pairs are seen, and it has a clock region.  The data path is its own.
 */
#ifndef SHIM_VERBS_OUTSIDE_H
#define SHIM_VERBS_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/core/call.h"
#include "shim/core/settings.h"

extern bool sr_outside;

/* Before main.  What it costs begins with the first device that is opened. */
void sr_outside_start(const struct sr_settings *settings);

/* A call that is seen here, or opens a device. */
uint64_t sr_outside_call(enum sr_call_number n, uint64_t *a);

#endif
