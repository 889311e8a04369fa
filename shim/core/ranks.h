/* SPDX-License-Identifier: BSD-2-Clause */
/* ranks.h: lists of ranks as users write them: 0,2-5. */
#ifndef SHIM_CORE_RANKS_H
#define SHIM_CORE_RANKS_H

#include <stdbool.h>

#define SR_RANK_MAX 1048576

/*
 * Takes the first range off the list, up to and with its comma: 2-5 are the ranks 2 to 5, and 7
 * is the rank 7.  False if the list does not begin with one, or if nothing follows its comma.
 */
bool sr_ranks_next(const char **list, long *first, long *last);

/* Is all of it a list?  An empty one is. */
bool sr_ranks_is_list(const char *list);

#endif
