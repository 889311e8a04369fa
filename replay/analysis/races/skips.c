/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/skips.h"

#include <errno.h>
#include <string.h>

#include "logd/base/checksum.h"
#include "replay/analysis/log/grow.h"

#define WORD 8
/* A counter is looked for so far from what was there before and from what was found. */
#define APART_MOST 65536

static int keep_skipped(struct sr_race_run *run, const struct sr_collected_request *w, uint64_t checksum)
{
	struct sr_race_skipped *at = sr_grow((void **)&run->skipped, run->skipped_n, &run->skipped_room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = (struct sr_race_skipped){.checksum = checksum,
				       .sn = w->sn,
				       .landing = w->r.landing,
				       .place = w->r.place,
				       .rank = (uint32_t)w->rank,
				       .thread = w->thread};
	run->skipped_n++;
	return 0;
}

/* The request changes the memory when it takes effect, and not at some time later. */
static bool lands_at_once(const struct sr_collected_request *w)
{
	return w->r.landing == w->r.effect;
}

bool sr_collect_skip(struct sr_collect *c, uint32_t rank, const struct sr_race_producing *found, struct sr_race_skip *s)
{
	const struct sr_collected_request *w;
	uint8_t now[WORD];

	if (!found->is_certain || !found->skipped_n || !sr_race_watches_see_all(c->how->watches, rank))
		return false;
	w = &c->requests[found->fits[0] - 1];
	sr_race_producers_get(c->producers, rank, found->word, now, WORD);
	*s = (struct sr_race_skip){.word = found->word,
				   .before = found->before,
				   .begin = w->begin,
				   .end = w->end,
				   .first = c->run->skipped_n,
				   .queue = w->queue,
				   .rank = rank,
				   .landing = w->r.landing,
				   .place = w->r.place};
	memcpy(&s->found, now, WORD);
	for (size_t i = 0; i < found->skipped_n; i++) {
		const struct sr_collected_request *k = &c->requests[found->skipped[i] - 1];

		if (!lands_at_once(k))
			return false;
		if (keep_skipped(c->run, k, c->m->accesses[k->first_access].checksum)) {
			c->m->is_full = true;
			return false;
		}
		s->n++;
	}
	return lands_at_once(w);
}

int sr_collect_add_skip(struct sr_collect *c, const struct sr_race_skip *s, const struct sr_position *at, uint64_t pc, uint32_t moment)
{
	struct sr_race_run *run = c->run;
	struct sr_race_skip *added = sr_grow((void **)&run->skips, run->skips_n, &run->skips_room, sizeof(*added));

	if (!added)
		return -ENOMEM;
	*added = *s;
	added->thread = at->thread;
	added->sn = at->sn;
	added->fault = at->fault;
	added->pc = pc;
	added->moment = moment;
	run->skips_n++;
	return 0;
}

/* The WRITE's part of a word, as a number. */
static uint64_t part_of(const struct sr_race_skip *s, uint64_t word)
{
	uint64_t part = 0;

	memcpy(&part, (const char *)&word + (s->begin - s->word), s->end - s->begin);
	return part;
}

bool sr_race_skipped_bytes(const struct sr_race_skip *s, const struct sr_race_skipped *w, uint8_t bytes[8])
{
	const uint64_t near[] = {part_of(s, s->found), part_of(s, s->before)};
	uint8_t padded[64] = {0}; /* the checksum's code for long values is inlined, and compilers warn of it */

	for (uint64_t apart = 1; w->checksum && apart < APART_MOST; apart++)
		for (size_t i = 0; i < 4; i++) {
			const uint64_t number = i % 2 ? near[i / 2] - apart : near[i / 2] + apart;

			memcpy(padded, &number, sizeof(number));
			if (sr_checksum(padded, s->end - s->begin, 0) != w->checksum)
				continue;
			memcpy(bytes, padded, s->end - s->begin);
			return true;
		}
	return false;
}
