/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/borders.h"

#include <errno.h>

#include "replay/analysis/log/grow.h"

int sr_collect_border(struct sr_collect *c, uint32_t moment, size_t rank, bool is_entry, bool is_socket)
{
	struct sr_race_run *run = c->run;
	struct sr_race_border *b =
		sr_grow((void **)&run->borders, run->borders_n, &run->borders_room, sizeof(*b));

	if (!b)
		return -ENOMEM;
	*b = (struct sr_race_border){
	    .moment = moment, .rank = (uint32_t)rank, .is_entry = is_entry, .is_socket = is_socket};
	run->borders_n++;
	return 0;
}

int sr_collect_unknown_value(struct sr_collect *c, uint32_t moment, size_t rank)
{
	int err = sr_collect_border(c, moment, rank, true, false);

	if (!err)
		c->run->borders[c->run->borders_n - 1].is_value = true;
	return err;
}

int sr_collect_unclocked_value(struct sr_collect *c, uint32_t moment, size_t rank)
{
	int err = sr_collect_border(c, moment, rank, true, false);

	if (!err)
		c->run->borders[c->run->borders_n - 1].is_unclocked = true;
	return err;
}

int sr_collect_unseen_end(struct sr_collect *c, uint32_t moment, size_t rank, uint32_t end)
{
	int err = sr_collect_border(c, moment, rank, true, false);
	struct sr_race_border *b = &c->run->borders[c->run->borders_n - 1];

	if (!err) {
		b->is_end = true;
		b->end = end;
	}
	return err;
}

int sr_collect_shared_value(struct sr_collect *c, uint32_t moment, size_t rank)
{
	int err = sr_collect_border(c, moment, rank, true, false);

	if (!err)
		c->run->borders[c->run->borders_n - 1].is_shared = true;
	return err;
}
