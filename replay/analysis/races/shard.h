/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shard.h: a part of the memory, with the accesses to it that a sweep has come to: each new one is compared with those that
 * are there.
 *
 * Several threads may each have shards of their own: a shard has the pieces of all ranks' memory, and the keys, whose number
 * is its own, modulo the number of shards.
 */
#ifndef REPLAY_ANALYSIS_RACES_SHARD_H
#define REPLAY_ANALYSIS_RACES_SHARD_H

#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/clocks.h"
#include "replay/analysis/races/found.h"
#include "replay/analysis/races/model.h"

#define SR_SHARDS_MOST 64

/* What all shards of a sweep share. */
struct sr_shards {
	/* To be filled in: */
	const struct sr_race_model *m;
	const struct sr_race_clocks *clocks;
	unsigned int n;
	/* As those of struct sr_sweep; found() is called only where pairs are not kept. */
	int (*found)(void *argument, const struct sr_access *a, const struct sr_access *b, enum sr_surety unordered, uint16_t doubts);
	int (*ordered)(void *argument, const struct sr_access *a, const struct sr_access *b);
	uint64_t (*origin)(void *argument, const struct sr_access *a);
	void *argument;

	struct sr_keymap released; /* keys that end */
};

/* 0 or -ENOMEM. */
int sr_shards_init(struct sr_shards *s);
void sr_shards_free(struct sr_shards *s);

/* A bit for each shard that this access is in. */
uint64_t sr_shards_of(const struct sr_shards *s, const struct sr_access *a);

struct sr_shard;

/* `of` stays.  NULL: no memory. */
struct sr_shard *sr_shard_new(const struct sr_shards *of, unsigned int number);
void sr_shard_free(struct sr_shard *h);

/* Pairs that were compared. */
uint64_t sr_shard_pairs(const struct sr_shard *h);

/*
 * The next access of the pass, with the past of its moment: it is compared with those before it.  found: where pairs are kept,
 * with this place; NULL: they are told at once.  0, -ENOMEM, or what found() or ordered() returned.
 */
int sr_shard_take(struct sr_shard *h, const struct sr_race_past *past, uint32_t access, uint32_t place, struct sr_found_pairs *found);

#endif
