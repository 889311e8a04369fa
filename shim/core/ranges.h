/* SPDX-License-Identifier: BSD-2-Clause */
/* ranges.h: lists of ranges of memory as users write them: 0x6a0000000000+4096,0x6a0000080000+36864. */
#ifndef SHIM_CORE_RANGES_H
#define SHIM_CORE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

/* A list has no more. */
#define SR_RANGES_MAX 64

/*
 * Removes the first range and its comma from the list. False if the list does not begin with a range, or if nothing follows the
 * comma.
 */
bool sr_ranges_next(const char **list, uint64_t *addr, uint64_t *bytes);

/* An empty text is a list. */
bool sr_ranges_is_list(const char *list);

#endif
