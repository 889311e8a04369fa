/* SPDX-License-Identifier: BSD-2-Clause */
/* ranks.h: lists of ranks as users write them: 0,2-5. */
#ifndef SHIM_CORE_RANKS_H
#define SHIM_CORE_RANKS_H

#include <stdbool.h>

#define SR_RANK_MAX 1048576

/*
 * Removes the first range and its comma from the list: 2-5 means the ranks 2 to 5, and 7 the rank
 * 7. False if the list does not begin with a range, or if nothing follows the comma.
 */
bool sr_ranks_next(const char **list, long *first, long *last);

/* An empty text is a list. */
bool sr_ranks_is_list(const char *list);

#endif
