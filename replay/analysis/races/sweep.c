/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/sweep.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/races/clocks.h"
#include "replay/analysis/races/found.h"
#include "replay/analysis/races/shard.h"

/* Moments that threads are given at once, and bytes of their pasts: enough that they seldom wait for each other. */
#define BATCH_MOMENTS 4096
#define BATCH_BYTES   (4u << 20)

/* More shards than threads: some take longer than others. */
#define SHARDS_A_THREAD 4

#define NONE UINT32_MAX

/* A moment that has accesses. */
struct slot {
	struct sr_race_past past;
	uint32_t first; /* its first access */
	uint32_t place; /* ... in the batch */
};

struct entry {
	uint32_t access, slot;
};

/* The accesses of a shard in a batch, and the pairs that are found. */
struct share {
	struct entry *entries;
	size_t n, room;
	struct sr_found_pairs found;
};

/* Moments that follow each other in the pass. */
struct batch {
	struct slot *slots;
	size_t slots_n, slots_room;
	struct share shares[SR_SHARDS_MOST];
	uint32_t places; /* accesses */
};

/* The caller's thread goes on with the pass and tells what was found, while the others compare. */
struct sweeping {
	const struct sr_race_model *m;
	struct sr_sweep *s;
	uint32_t *of_moment; /* by moment: its first access */
	struct sr_race_clocks *clocks;
	struct sr_shards shards;
	struct sr_shard *shard[SR_SHARDS_MOST];
	int ret[SR_SHARDS_MOST]; /* of each shard */
	unsigned int threads;
	struct batch *batches; /* two */
	/* Of the batch that is compared: */
	struct batch *now;
	unsigned int next; /* shard that nobody has taken */
	pthread_mutex_t lock;
	pthread_cond_t begin, end;
	unsigned int generation, busy;
	bool is_over;
};

/* ------------------------------------------------------------------ batches */

static int add_entries(struct sweeping *w, struct batch *b, uint32_t access)
{
	uint64_t shards = sr_shards_of(&w->shards, &w->m->accesses[access]);

	for (; shards; shards &= shards - 1) {
		struct share *h = &b->shares[__builtin_ctzll(shards)];
		struct entry *at = sr_grow((void **)&h->entries, h->n, &h->room, sizeof(*at));

		if (!at)
			return -ENOMEM;
		*at = (struct entry){access, (uint32_t)b->slots_n - 1};
		h->n++;
	}
	return 0;
}

static int add_moment(struct sweeping *w, struct batch *b, uint32_t moment)
{
	struct slot *slot = sr_grow((void **)&b->slots, b->slots_n, &b->slots_room, sizeof(*slot));
	int ret = 0;

	if (!slot)
		return -ENOMEM;
	*slot = (struct slot){sr_race_clocks_keep(w->clocks), w->of_moment[moment], b->places};
	b->slots_n++;
	for (uint32_t i = slot->first; i < w->m->accesses_n && w->m->accesses[i].from == moment && !ret; i++, b->places++)
		ret = add_entries(w, b, i);
	return ret;
}

static void empty(struct sweeping *w, struct batch *b)
{
	for (size_t i = 0; i < b->slots_n; i++)
		sr_race_clocks_drop(w->clocks, &b->slots[i].past);
	b->slots_n = b->places = 0;
	for (unsigned int i = 0; i < w->shards.n; i++)
		b->shares[i].n = 0;
}

/* The pass goes on: at its end the batch stays empty.  0 or -errno. */
static int fill(struct sweeping *w, struct batch *b)
{
	const size_t most = w->threads > 1 ? (w->s->batch ? w->s->batch : BATCH_MOMENTS) : 1;
	size_t bytes = 0;
	uint32_t moment;
	int ret = 0;

	while (!ret && b->slots_n < most && bytes < BATCH_BYTES) {
		moment = sr_race_clocks_next(w->clocks);
		if (moment == SR_NO_MOMENT)
			return sr_race_clocks_error(w->clocks);
		if (w->of_moment[moment] == NONE)
			continue;
		ret = add_moment(w, b, moment);
		bytes += ret ? 0 : sr_race_past_size(&b->slots[b->slots_n - 1].past);
	}
	return ret;
}

/* Takes shards of the batch until none is left. */
static void compare(struct sweeping *w, struct batch *b)
{
	unsigned int i;

	while ((i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED)) < w->shards.n) {
		struct share *h = &b->shares[i];

		for (size_t k = 0; k < h->n && !w->ret[i]; k++) {
			const struct slot *slot = &b->slots[h->entries[k].slot];
			const uint32_t access = h->entries[k].access;

			w->ret[i] = sr_shard_take(w->shard[i], &slot->past, access, slot->place + (access - slot->first),
						  w->threads > 1 ? &h->found : NULL);
		}
	}
}

static int tell(struct sweeping *w, struct batch *b)
{
	const struct sr_access *all = w->m->accesses;
	struct sr_found_pairs *lists[SR_SHARDS_MOST];
	const struct sr_found_pair *f;
	int ret = 0;

	for (unsigned int i = 0; i < w->shards.n; i++)
		lists[i] = &b->shares[i].found;
	while (!ret && (f = sr_found_next(lists, w->shards.n)))
		ret = w->s->found(w->s->argument, &all[f->a], &all[f->b], f->unordered, f->doubts);
	for (unsigned int i = 0; i < w->shards.n; i++)
		b->shares[i].found.n = b->shares[i].found.told = 0;
	return ret;
}

/* ------------------------------------------------------------------ threads */

static void *help(void *argument)
{
	struct sweeping *w = argument;
	unsigned int seen = 0;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct batch *b;

		while (w->generation == seen && !w->is_over)
			pthread_cond_wait(&w->begin, &w->lock);
		if (w->is_over)
			break;
		seen = w->generation;
		b = w->now;
		pthread_mutex_unlock(&w->lock);
		compare(w, b);
		pthread_mutex_lock(&w->lock);
		if (!--w->busy)
			pthread_cond_signal(&w->end);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void begin(struct sweeping *w, struct batch *b, unsigned int helpers)
{
	pthread_mutex_lock(&w->lock);
	w->now = b;
	__atomic_store_n(&w->next, 0, __ATOMIC_RELAXED);
	w->busy = helpers;
	w->generation++;
	pthread_cond_broadcast(&w->begin);
	pthread_mutex_unlock(&w->lock);
}

static void end(struct sweeping *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->busy)
		pthread_cond_wait(&w->end, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static int first_failure(const struct sweeping *w)
{
	for (unsigned int i = 0; i < w->shards.n; i++)
		if (w->ret[i])
			return w->ret[i];
	return 0;
}

/* While a batch is compared the next one is filled, and what was found in the one before is told. */
static int go(struct sweeping *w, unsigned int helpers)
{
	struct batch *now = &w->batches[0], *other = &w->batches[1];
	int ret = fill(w, now);

	while (!ret && now->slots_n) {
		struct batch *was = other;

		begin(w, now, helpers);
		ret = tell(w, other);
		if (!ret)
			ret = fill(w, other);
		compare(w, now);
		end(w);
		ret = ret ? ret : first_failure(w);
		empty(w, now);
		other = now;
		now = was;
	}
	return ret ? ret : tell(w, other);
}

/* The caller is one of the threads.  What no thread can be made for, it does itself. */
static int go_with_helpers(struct sweeping *w)
{
	pthread_t threads[SR_SWEEP_THREADS_MOST];
	unsigned int helpers = 0;
	int ret;

	while (helpers + 1 < w->threads && !pthread_create(&threads[helpers], NULL, help, w))
		helpers++;
	ret = go(w, helpers);
	pthread_mutex_lock(&w->lock);
	w->is_over = true;
	pthread_cond_broadcast(&w->begin);
	pthread_mutex_unlock(&w->lock);
	while (helpers)
		pthread_join(threads[--helpers], NULL);
	return ret;
}

/* ---------------------------------------------------------------------- all */

static bool index_accesses(struct sweeping *w)
{
	const struct sr_race_model *m = w->m;

	w->of_moment = sr_large_make(m->moments_n + 1, sizeof(*w->of_moment));
	if (!w->of_moment)
		return false;
	for (size_t i = 0; i < m->moments_n; i++)
		w->of_moment[i] = NONE;
	for (size_t i = m->accesses_n; i-- > 0;)
		if (m->accesses[i].from != SR_NO_MOMENT)
			w->of_moment[m->accesses[i].from] = (uint32_t)i;
	return true;
}

static bool prepare(struct sweeping *w)
{
	w->batches = calloc(2, sizeof(*w->batches));
	w->clocks = sr_race_clocks_new(w->m);
	w->shards.clocks = w->clocks;
	if (!w->batches || !w->clocks || !index_accesses(w) || sr_shards_init(&w->shards))
		return false;
	for (unsigned int i = 0; i < w->shards.n; i++)
		if (!(w->shard[i] = sr_shard_new(&w->shards, i)))
			return false;
	return true;
}

static void release(struct sweeping *w)
{
	for (unsigned int i = 0; i < w->shards.n; i++)
		sr_shard_free(w->shard[i]);
	for (size_t k = 0; w->batches && k < 2; k++) {
		empty(w, &w->batches[k]);
		free(w->batches[k].slots);
		for (unsigned int i = 0; i < w->shards.n; i++) {
			free(w->batches[k].shares[i].entries);
			free(w->batches[k].shares[i].found.all);
		}
	}
	free(w->batches);
	sr_large_free(w->of_moment, w->m->moments_n + 1, sizeof(*w->of_moment));
	sr_race_clocks_free(w->clocks);
	sr_shards_free(&w->shards);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->begin);
	pthread_cond_destroy(&w->end);
}

int sr_sweep(const struct sr_race_model *m, struct sr_sweep *s)
{
	const unsigned int asked = s->ordered ? 1 : s->threads, threads = asked > SR_SWEEP_THREADS_MOST ? SR_SWEEP_THREADS_MOST : asked;
	struct sweeping w = {.m = m, .s = s, .threads = threads,
			     .shards = {.m = m, .n = threads > 1 ? SHARDS_A_THREAD * threads : 1,
					.found = s->found, .ordered = s->ordered, .origin = s->origin, .argument = s->argument},
			     .lock = PTHREAD_MUTEX_INITIALIZER, .begin = PTHREAD_COND_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};
	int ret = prepare(&w) ? go_with_helpers(&w) : -ENOMEM;

	for (unsigned int i = 0; i < w.shards.n; i++)
		s->pairs += w.shard[i] ? sr_shard_pairs(w.shard[i]) : 0;
	s->dropped = w.clocks ? sr_race_clocks_dropped(w.clocks) : 0;
	release(&w);
	return ret;
}
