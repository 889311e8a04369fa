/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/by_value.h"

#include "shim/core/ranges.h"
#include "shim/verbs/clocks/clocks.h"

static struct {
	uint64_t addr, length;
} ranges[SR_RANGES_MAX];
static uint32_t count;

void sr_by_value_start(const char *list)
{
	while (list && count < SR_RANGES_MAX && sr_ranges_next(&list, &ranges[count].addr, &ranges[count].length))
		count++;
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
