/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/arrived.h"

/* Memory in lines, each with the last message that has come there: of several shorter ones the others are forgotten. */
#define LINE 256
/* Of longer messages nothing is known. */
#define LENGTH_MOST UINT16_MAX

/* what: where the message begins, and its length; 0: none. */
static int put(struct sr_collect *c, size_t rank, uint64_t begin, uint64_t end, uint64_t what)
{
	int err = 0;

	for (uint64_t line = begin / LINE; begin < end && line <= (end - 1) / LINE && !err; line++)
		err = sr_keymap_put(&c->arrived, sr_keymap_of_rank(line, rank), what);
	return err;
}

int sr_collect_arrived(struct sr_collect *c, size_t rank, uint64_t begin, uint64_t end)
{
	return end - begin > LENGTH_MOST ? 0 : put(c, rank, begin, end, begin << 16 | (end - begin));
}

/* The one before it, to the same place, began there, too. */
int sr_collect_awaits(struct sr_collect *c, size_t rank, uint64_t begin, uint64_t end)
{
	if (end - begin > LENGTH_MOST)
		end = begin + LENGTH_MOST;
	return put(c, rank, begin, end, 0);
}

bool sr_collect_has_arrived(const struct sr_collect *c, size_t rank, uint64_t begin, uint64_t *end)
{
	for (uint64_t line = begin / LINE; line <= (*end - 1) / LINE; line++) {
		uint64_t what, first, last;

		if (!sr_keymap_get(&c->arrived, sr_keymap_of_rank(line, rank), &what) || !what)
			continue;
		first = what >> 16;
		last = first + (what & LENGTH_MOST);
		if (first <= begin && begin < last) {
			*end = last < *end ? last : *end;
			return true;
		}
		if (first > begin) {
			*end = first < *end ? first : *end;
			return false;
		}
	}
	return false;
}
