/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/by_value.h"

#include <stdlib.h>

#include "logd/base/say.h"
#include "shim/verbs/clocks/clocks.h"

#define RANGES 64

static struct {
	uint64_t addr, length;
} ranges[RANGES];
static uint32_t count;

/* Behind the range at p and its comma; NULL: there is none. */
static const char *take_range(const char *p)
{
	char *end;

	ranges[count].addr = strtoull(p, &end, 0);
	if (end == p || *end != '+')
		return NULL;
	p = end + 1;
	ranges[count].length = strtoull(p, &end, 0);
	if (end == p || (*end && *end != ','))
		return NULL;
	count++;
	return *end ? end + 1 : end;
}

void sr_by_value_start(const char *list)
{
	const char *p = list;

	while (p && *p && count < RANGES)
		p = take_range(p);
	if (list && (!p || *p))
		sr_say("--by-value: %s is no list of at most %d ranges such as 0x6a0000000000+4096", list, RANGES);
	/* What others READ of this process's memory may be there. */
	if (count)
		sr_clocks_unwatched();
}

bool sr_is_by_value(uint64_t addr, uint64_t length)
{
	for (uint32_t i = 0; i < count; i++)
		if (addr < ranges[i].addr + ranges[i].length && ranges[i].addr < addr + length)
			return true;
	return false;
}
