/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/watched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/large.h"

#define WORD 8
/* Of a READ so many words are looked at. */
#define WORDS_MOST 512

int sr_race_watches_keep(struct sr_race_watches *s, uint32_t rank, const struct sr_watch_access *found)
{
	struct sr_race_watched *at = sr_large_grow((void **)&s->all, s->n, &s->room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = (struct sr_race_watched){.rank = rank, .number = (uint32_t)s->n, .a = *found};
	s->n++;
	return 0;
}

static uint64_t key_of_piece(uint32_t rank, uint32_t thread, uint64_t sn)
{
	return sr_keymap_of_rank((uint64_t)thread << 40 ^ sn, rank);
}

static int take(struct sr_race_watches *s, uint32_t rank, const struct sr_watch_access *found)
{
	switch (found->kind) {
	case SR_WATCH_POLL:
		return sr_keymap_put(&s->polls, found->pc, 1);
	case SR_WATCH_REACHED:
		s->reached++;
		return 0;
	case SR_WATCH_BESIDE:
		return sr_keymap_put(&s->beside, key_of_piece(rank, found->thread, found->sn), 1);
	default:
		return sr_race_watches_keep(s, rank, found);
	}
}

bool sr_race_watches_are_ordered(const struct sr_race_watches *s, uint32_t rank, uint32_t thread, uint64_t sn)
{
	uint64_t is;

	return !s->are_partial && !sr_keymap_get(&s->beside, key_of_piece(rank, thread, sn), &is) && sr_race_watches_take_turns(s, rank);
}

bool sr_race_watches_take_turns(const struct sr_race_watches *s, uint32_t rank)
{
	uint64_t is;

	return !sr_keymap_get(&s->beside, key_of_piece(rank, SR_WATCH_ALL_THREADS, 0), &is);
}

int sr_race_watches_read(struct sr_race_watches *s, uint32_t rank, const char *path)
{
	FILE *f = fopen(path, "r");
	struct sr_watch_head head;
	struct sr_watch_access found;
	int ret = 0;

	if (!f)
		return -errno;
	if (fread(&head, sizeof(head), 1, f) != 1 ||
	    fseek(f, (long)(head.ranges * sizeof(struct sr_watch_range)), SEEK_CUR))
		ret = -EIO;
	while (!ret && fread(&found, sizeof(found), 1, f) == 1)
		ret = take(s, rank, &found);
	if (ferror(f))
		ret = -EIO;
	fclose(f);
	return ret;
}

/* What was found changed at a fault was stored before that; an access at a fault comes behind it. */
static uint64_t place_of(const struct sr_watch_access *a)
{
	return 2 * (uint64_t)a->fault + (a->kind != SR_WATCH_CHANGED);
}

static int by_call(const void *a, const void *b)
{
	const struct sr_race_watched *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->a.thread != y->a.thread)
		return x->a.thread < y->a.thread ? -1 : 1;
	if (x->a.sn != y->a.sn)
		return x->a.sn < y->a.sn ? -1 : 1;
	if (place_of(&x->a) != place_of(&y->a))
		return place_of(&x->a) < place_of(&y->a) ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static uint64_t key_of_word(uint32_t rank, uint64_t word)
{
	return sr_keymap_of_rank(word, rank);
}

static int note_stored(struct sr_race_watches *s, uint32_t rank, const struct sr_watch_access *a)
{
	int err = 0;

	for (uint64_t w = a->address / WORD; w <= (a->address + a->length - 1) / WORD && !err; w++)
		err = sr_keymap_put(&s->stored, key_of_word(rank, w), 1);
	return err;
}

int sr_race_watches_sort(struct sr_race_watches *s)
{
	s->next = sr_large_zeroed(s->n + 1, sizeof(*s->next));
	if (!s->next)
		return -ENOMEM;
	if (s->n)
		qsort(s->all, s->n, sizeof(*s->all), by_call);
	for (size_t i = 0; i < s->n; i++)
		if ((s->all[i].a.kind == SR_WATCH_STORE || s->all[i].a.kind == SR_WATCH_CHANGED) && note_stored(s, s->all[i].rank, &s->all[i].a))
			return -ENOMEM;
	return 0;
}

void sr_race_watches_restart(struct sr_race_watches *s)
{
	memset(s->next, 0, (s->n + 1) * sizeof(*s->next));
}

bool sr_race_watches_see_all(const struct sr_race_watches *s, size_t rank)
{
	return s && !s->are_partial && !s->doubts[rank];
}

bool sr_race_watches_may_store(const struct sr_race_watches *s, uint32_t rank, uint64_t begin, uint64_t end)
{
	uint64_t is;

	if (!sr_race_watches_see_all(s, rank) || end - begin > WORD * WORDS_MOST)
		return true;
	for (uint64_t w = begin / WORD; w <= (end - 1) / WORD; w++)
		if (sr_keymap_get(&s->stored, key_of_word(rank, w), &is))
			return true;
	return false;
}

void sr_race_watches_free(struct sr_race_watches *s)
{
	sr_large_free(s->all, s->room, sizeof(*s->all));
	sr_large_free(s->next, s->n + 1, sizeof(*s->next));
	free(s->doubts);
	sr_keymap_free(&s->beside);
	sr_keymap_free(&s->polls);
	sr_keymap_free(&s->stored);
}

bool sr_race_watches_is_poll(const struct sr_race_watches *s, uint64_t pc)
{
	uint64_t is;

	return sr_keymap_get(&s->polls, pc, &is);
}

/* The first one that is not before this one. */
static size_t find(const struct sr_race_watches *s, const struct sr_race_watched *wanted)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_call(&s->all[middle], wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first one of the thread. */
static size_t first_of(const struct sr_race_watches *s, uint32_t rank, uint32_t thread)
{
	return find(s, &(struct sr_race_watched){.rank = rank, .a.thread = thread});
}

static const struct sr_race_watched *next_due(const struct sr_race_watches *s, size_t first, uint32_t rank, uint32_t thread, uint64_t sn,
					      uint32_t fault)
{
	const struct sr_race_watched *found;

	if (first == s->n || first + s->next[first] >= s->n)
		return NULL;
	found = &s->all[first + s->next[first]];
	return found->rank != rank || found->a.thread != thread || found->a.sn > sn ||
			       (found->a.sn == sn && place_of(&found->a) > 2 * (uint64_t)fault)
		       ? NULL
		       : found;
}

const struct sr_race_watched *sr_race_watches_due(struct sr_race_watches *s, uint32_t rank, uint32_t thread, uint64_t sn,
						  uint32_t fault)
{
	const size_t first = first_of(s, rank, thread);
	const struct sr_race_watched *found = next_due(s, first, rank, thread, sn, fault);

	if (found)
		s->next[first]++;
	return found;
}

bool sr_race_watches_are_due(const struct sr_race_watches *s, uint32_t rank, uint32_t thread, uint64_t sn)
{
	return next_due(s, first_of(s, rank, thread), rank, thread, sn, 0);
}

const struct sr_race_watched *sr_race_watches_find(const struct sr_race_watches *s, uint32_t rank, enum sr_watch_kind kind, uint32_t thread,
						   uint64_t sn, uint32_t fault, uint64_t pc)
{
	const struct sr_race_watched wanted = {.rank = rank, .a = {.thread = thread, .sn = sn, .fault = fault, .kind = kind}};

	for (size_t i = find(s, &wanted); i < s->n; i++) {
		const struct sr_race_watched *w = &s->all[i];

		if (w->rank != rank || w->a.thread != thread || w->a.sn != sn || w->a.fault != fault)
			break;
		if (w->a.kind == kind && w->a.pc == pc)
			return w;
	}
	return NULL;
}

bool sr_race_watches_have_load(const struct sr_race_watches *s, uint32_t rank, uint32_t thread, uint64_t sn, uint64_t address)
{
	const struct sr_race_watched wanted = {.rank = rank, .a = {.thread = thread, .sn = sn}};

	for (size_t i = find(s, &wanted); i < s->n; i++) {
		const struct sr_race_watched *w = &s->all[i];

		if (w->rank != rank || w->a.thread != thread || w->a.sn != sn)
			break;
		if (w->a.kind == SR_WATCH_LOAD && address - w->a.address < w->a.length)
			return true;
	}
	return false;
}

/* ------------------------------------------------------- what is to be watched */

static int by_begin(const void *a, const void *b)
{
	const struct sr_watch_range *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* The memory of these accesses, with repetitions. */
static int find_ranges(const struct sr_race_model *m, uint32_t rank, struct sr_watch_range **ranges, size_t *n)
{
	size_t room = 0;

	for (size_t i = 0; i < m->accesses_n; i++) {
		const struct sr_access *a = &m->accesses[i];
		struct sr_watch_range *at;

		if (a->owner != rank || a->kind == SR_ACCESS_LOAD || a->kind == SR_ACCESS_STORE || a->kind == SR_ACCESS_RELEASE ||
		    a->kind == SR_ACCESS_MESSAGE || a->kind == SR_ACCESS_CHANGE)
			continue;
		at = sr_grow((void **)ranges, *n, &room, sizeof(*at));
		if (!at)
			return -ENOMEM;
		*at = (struct sr_watch_range){a->begin, a->end};
		(*n)++;
	}
	return 0;
}

static size_t join(struct sr_watch_range *ranges, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(ranges, n, sizeof(*ranges), by_begin);
	for (size_t i = 0; i < n; i++) {
		if (!kept || ranges[kept - 1].end < ranges[i].begin)
			ranges[kept++] = ranges[i];
		else if (ranges[kept - 1].end < ranges[i].end)
			ranges[kept - 1].end = ranges[i].end;
	}
	return kept;
}

static int write_question(const struct sr_watch_head *head, const struct sr_watch_range *ranges, const char *path)
{
	FILE *f = fopen(path, "w");
	bool fine;

	if (!f)
		return -errno;
	fine = fwrite(head, sizeof(*head), 1, f) == 1 && fwrite(ranges, sizeof(*ranges), head->ranges, f) == head->ranges;
	fine &= fclose(f) == 0;
	return fine ? 0 : -EIO;
}

int sr_race_watches_ask(const struct sr_race_model *m, uint32_t rank, const char *path)
{
	struct sr_watch_range *ranges = NULL;
	struct sr_watch_head head = {0};
	size_t n = 0;
	int ret = find_ranges(m, rank, &ranges, &n);

	head.ranges = n = join(ranges, n);
	if (!ret)
		ret = write_question(&head, ranges, path);
	free(ranges);
	return ret ? ret : (int)n;
}

int sr_race_watches_try(const struct sr_access *load, const char *path)
{
	const struct sr_watch_range range = {load->begin, load->end};
	const struct sr_watch_head head = {.ranges = 1,
					   .trial = {.sn = load->sn,
						     .address = load->begin,
						     .pc = load->pc,
						     .thread = load->thread,
						     .fault = load->fault,
						     .length = (uint32_t)(load->end - load->begin)}};

	return write_question(&head, &range, path);
}

int sr_race_watches_try_access(const struct sr_watch_trial *trial, const char *path)
{
	struct sr_watch_range ranges[] = {{trial->address, trial->address + trial->length}, {trial->wanted_begin, trial->wanted_end}};
	struct sr_watch_head head = {.trial = *trial};

	head.ranges = join(ranges, 2);
	return write_question(&head, ranges, path);
}
