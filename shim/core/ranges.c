/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/ranges.h"

#include <stdlib.h>

static bool number(const char **text, uint64_t *value)
{
	char *end;

	/* strtoull() takes signs and spaces as well. */
	if (**text < '0' || **text > '9')
		return false;
	*value = strtoull(*text, &end, 0);
	*text = end;
	return true;
}

bool sr_ranges_next(const char **list, uint64_t *addr, uint64_t *bytes)
{
	const char *p = *list;

	if (!number(&p, addr) || *p++ != '+' || !number(&p, bytes) || (*p && *p != ','))
		return false;
	*list = *p ? p + 1 : p;
	return !*p || **list;
}

bool sr_ranges_is_list(const char *list)
{
	uint64_t addr, bytes;
	int n = 0;

	while (*list)
		if (++n > SR_RANGES_MAX || !sr_ranges_next(&list, &addr, &bytes))
			return false;
	return true;
}
