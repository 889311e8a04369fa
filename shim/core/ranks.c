/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/ranks.h"

#include "logd/base/decimal.h"

bool sr_ranks_next(const char **list, long *first, long *last)
{
	const char *p = *list;

	if (!sr_decimal(&p, SR_RANK_MAX, first))
		return false;
	*last = *first;
	if (*p == '-') {
		p++;
		if (!sr_decimal(&p, SR_RANK_MAX, last) || *last < *first)
			return false;
	}
	if (*p && *p != ',')
		return false;
	*list = *p ? p + 1 : p;
	return !*p || **list;
}

bool sr_ranks_is_list(const char *list)
{
	long first, last;

	while (*list)
		if (!sr_ranks_next(&list, &first, &last))
			return false;
	return true;
}
