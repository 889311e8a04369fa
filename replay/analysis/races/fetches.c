/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/fetches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sr_collect_await_fetch(struct sr_collect *c, size_t rank, uint64_t number)
{
	struct sr_collected_rank *r = &c->ranks[rank];

	if (r->fetches_n == SR_FETCHES_MOST)
		memmove(r->fetches, r->fetches + 1, --r->fetches_n * sizeof(r->fetches[0]));
	r->fetches[r->fetches_n++] = number;
}

/* Its next piece of the rank's memory, and how many bytes are in front of it. */
static const struct sr_access *next_piece(const struct sr_collect *c, uint64_t number, uint32_t *i, uint64_t *before)
{
	const struct sr_collected_request *rq = &c->requests[number - 1];
	const struct sr_access *a;

	for (; *i < rq->accesses_n; (*i)++) {
		a = &c->m->accesses[rq->first_access + *i];
		if (a->kind != SR_ACCESS_SCATTER)
			continue;
		(*i)++;
		*before += a->end - a->begin;
		return a;
	}
	return NULL;
}

static bool overlaps(const struct sr_collect *c, uint64_t number, uint64_t begin, uint64_t end)
{
	const struct sr_access *a;
	uint64_t before = 0;
	uint32_t i = 0;

	while ((a = next_piece(c, number, &i, &before)))
		if (a->begin < end && begin < a->end)
			return true;
	return false;
}

static void drop(struct sr_collected_rank *r, size_t i)
{
	memmove(r->fetches + i, r->fetches + i + 1, (--r->fetches_n - i) * sizeof(r->fetches[0]));
}

void sr_collect_overwrite_fetches(struct sr_collect *c, size_t rank, uint64_t begin, uint64_t end)
{
	struct sr_collected_rank *r = &c->ranks[rank];

	for (size_t i = r->fetches_n; i-- > 0;)
		if (overlaps(c, r->fetches[i], begin, end))
			drop(r, i);
}

bool sr_collect_is_of_fetch(const struct sr_collect *c, size_t rank, uint64_t address, uint64_t length)
{
	const struct sr_collected_rank *r = &c->ranks[rank];
	const struct sr_access *a;

	for (size_t n = r->fetches_n; n-- > 0;) {
		uint64_t before = 0;
		uint32_t i = 0;

		while ((a = next_piece(c, r->fetches[n], &i, &before)))
			if (a->begin <= address && address + length <= a->end)
				return true;
	}
	return false;
}

static int take(struct sr_collect *c, size_t rank, uint64_t number, const struct sr_access *a, uint64_t before)
{
	const struct sr_collected_request *rq = &c->requests[number - 1];
	const uint64_t length = a->end - a->begin;
	uint8_t *data = malloc(length);
	int err;

	if (!data)
		return -ENOMEM;
	sr_race_producers_get(c->producers, (uint32_t)rank, a->begin, data, length);
	err = c->take_value(c, &(struct sr_value){.rank = rank,
						       .from = rq->to,
						       .posted = number,
						       .data = data,
						       .length = (uint32_t)length,
						       .remote = rq->begin + before - length,
						       .known = c->ranks[rank].known});
	free(data);
	return err;
}

int sr_collect_found_fetches(struct sr_collect *c, size_t rank, uint64_t address, uint64_t length)
{
	struct sr_collected_rank *r = &c->ranks[rank];
	int err = 0;

	for (size_t n = r->fetches_n; n-- > 0 && !err;) {
		const uint64_t number = r->fetches[n];
		const struct sr_access *a;
		uint64_t before = 0;
		uint32_t i = 0;

		if (!overlaps(c, number, address, address + length))
			continue;
		drop(r, n);
		while ((a = next_piece(c, number, &i, &before)) && !err)
			err = take(c, rank, number, a, before);
	}
	return err;
}
