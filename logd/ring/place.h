/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place.h: addresses for what logd/ maps into the recorded process.
 *
 * A range of PROT_NONE to map over, or -errno as an address.  It comes from
 * the hook of sr_ring_set_placement (ring.h), or from the kernel.
 */
#ifndef LOGD_RING_PLACE_H
#define LOGD_RING_PLACE_H

#include <stddef.h>

void *sr_place(size_t bytes);

#endif
