/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scattered.h: places of peers' memory in which words change here and there between two READs (record --order).
 *
 * Mostly each of these words is another rank's.  A replay, which has one checksum of all of them, would have to find out how
 * far each of these ranks had come: there may be more combinations than it can try, and than the checksum tells apart.  So
 * what is READ from such a place is recorded, from the first such change on.  Of a short place any change is one: it may be what
 * ranks write over each other.
 */
#ifndef SHIM_VERBS_SCATTERED_H
#define SHIM_VERBS_SCATTERED_H

#include <stdbool.h>
#include <stdint.h>

/* What a READ of the peer that this queue is connected to has brought from `remote`.  Of a process without threads. */
bool sr_is_scattered(const void *queue, uint64_t remote, const void *bytes, uint32_t length);

#endif
