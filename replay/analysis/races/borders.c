/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/borders.h"

#include <errno.h>

#include "replay/analysis/log/grow.h"

/* NULL: no memory. */
static struct sr_race_border *add(struct sr_collect *c, uint32_t moment, size_t rank, bool is_entry)
{
	struct sr_race_run *run = c->run;
	struct sr_race_border *b =
		sr_grow((void **)&run->borders, run->borders_n, &run->borders_room, sizeof(*b));

	if (!b)
		return NULL;
	*b = (struct sr_race_border){.moment = moment, .rank = (uint32_t)rank, .is_entry = is_entry};
	run->borders_n++;
	return b;
}

int sr_collect_border(struct sr_collect *c, uint32_t moment, size_t rank, bool is_entry, bool is_socket)
{
	struct sr_race_border *b = add(c, moment, rank, is_entry);

	if (!b)
		return -ENOMEM;
	b->is_socket = is_socket;
	return 0;
}

int sr_collect_unknown_value(struct sr_collect *c, uint32_t moment, size_t rank)
{
	struct sr_race_border *b = add(c, moment, rank, true);

	if (!b)
		return -ENOMEM;
	b->is_value = true;
	return 0;
}

int sr_collect_unclocked_value(struct sr_collect *c, uint32_t moment, size_t rank)
{
	struct sr_race_border *b = add(c, moment, rank, true);

	if (!b)
		return -ENOMEM;
	b->is_unclocked = true;
	return 0;
}

int sr_collect_unseen_end(struct sr_collect *c, uint32_t moment, size_t rank, uint32_t end)
{
	struct sr_race_border *b = add(c, moment, rank, true);

	if (!b)
		return -ENOMEM;
	b->is_end = true;
	b->end = end;
	return 0;
}

int sr_collect_shared_value(struct sr_collect *c, uint32_t moment, size_t rank)
{
	struct sr_race_border *b = add(c, moment, rank, true);

	if (!b)
		return -ENOMEM;
	b->is_shared = true;
	return 0;
}
