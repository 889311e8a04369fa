/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/fetches.h"

#include <stddef.h>

#define FETCHES 256

static struct sr_fetch fetches[FETCHES];
static uint64_t posted, ends;

static struct sr_fetch *numbered(uint64_t number)
{
	return &fetches[number % FETCHES];
}

uint64_t sr_fetch_posted(const struct sr_fetch *f)
{
	*numbered(posted) = *f;
	return posted++;
}

void sr_fetch_ended(uint64_t number, uint32_t n)
{
	ends++;
	for (uint32_t i = 0; i < n; i++)
		if (posted - (number + i) <= FETCHES)
			numbered(number + i)->ended = ends;
}

uint64_t sr_fetch_ends(void)
{
	return ends;
}

bool sr_fetch_from(uint64_t number, uint64_t addr, uint32_t n)
{
	for (uint64_t k = posted; k-- > number && posted - k <= FETCHES;) {
		const struct sr_fetch *f = numbered(k);

		if (f->addr < addr + n && addr < f->addr + f->length)
			return true;
	}
	return false;
}

const struct sr_fetch *sr_fetch_over(uint64_t end, uint64_t addr, uint32_t n)
{
	for (uint64_t k = 0; k < FETCHES && k < posted; k++) {
		const struct sr_fetch *f = numbered(posted - 1 - k);

		if (f->addr <= addr && addr + n <= f->addr + f->length && (!f->ended || f->ended > end))
			return f;
	}
	return NULL;
}
