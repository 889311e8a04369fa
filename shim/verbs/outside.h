/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outside.h: a process of the job that is not in the group.
 *
 * It is not recorded.  But members write their clocks into its memory and look up its queue
 * pairs in the directory.  So the process has a clock region, and the shim handles its calls
 * that create and connect queue pairs.  The shim does not touch its data path.
 */
#ifndef SHIM_VERBS_OUTSIDE_H
#define SHIM_VERBS_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/core/call.h"
#include "shim/core/settings.h"

extern bool sr_outside;

/* Called before main.  The process pays nothing until it opens its first device. */
void sr_outside_start(const struct sr_settings *settings);

/* Makes a call that the shim handles in such a process, or that opens a device. */
uint64_t sr_outside_call(enum sr_call_number n, uint64_t *a);

#endif
