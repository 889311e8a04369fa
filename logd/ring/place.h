/* SPDX-License-Identifier: BSD-2-Clause */
/* place.h: addresses for what logd/ maps into the recorded process. */
#ifndef LOGD_RING_PLACE_H
#define LOGD_RING_PLACE_H

#include <stddef.h>

/*
 * The kernel chooses addresses, unless this hook is set: it returns a range of that many
 * bytes to map over, or NULL.  One for the process, set before its first ring.
 */
void sr_place_set_hook(void *(*place)(size_t bytes));

/* A range of PROT_NONE to map over; or -errno as an address (sr_sys_is_error). */
void *sr_place(size_t bytes);

#endif
