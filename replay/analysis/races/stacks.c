/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/stacks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "replay/abi/stacks.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/large.h"

#define FRAMES_MOST 64

struct sr_race_stack_note {
	uint64_t site, sn, stack;
	uint32_t rank, thread, fault;
};

static uint64_t key(uint32_t rank, uint64_t stack)
{
	return stack ^ (uint64_t)(rank + 1) * 0x9e3779b97f4a7c15ull;
}

/* Before its frames, their number. */
static int keep_frames(struct sr_race_stacks *s, uint32_t rank, const struct sr_stack_note *note,
		       FILE *f)
{
	const size_t at = s->frames_n;
	uint64_t *frame;

	if (note->frames > FRAMES_MOST)
		return -EIO;
	for (uint32_t i = 0; i <= note->frames; i++) {
		frame = sr_grow((void **)&s->frames, s->frames_n, &s->frames_room, sizeof(*frame));
		if (!frame)
			return -ENOMEM;
		*frame = note->frames;
		if (i && fread(frame, sizeof(*frame), 1, f) != 1)
			return -EIO;
		s->frames_n++;
	}
	return sr_keymap_put(&s->places, key(rank, note->hash), at);
}

static bool has_library(const struct sr_race_stacks *s, uint32_t rank, uint64_t begin)
{
	for (size_t i = 0; i < s->libraries_n; i++)
		if (s->libraries[i].rank == rank && s->libraries[i].begin == begin)
			return true;
	return false;
}

static int keep_library(struct sr_race_stacks *s, uint32_t rank, const struct sr_stack_object *o, FILE *f)
{
	struct sr_race_library *at;

	if (o->path > PATH_MAX)
		return -EIO;
	/* A process tells some of them again. */
	if (has_library(s, rank, o->begin))
		return fseek(f, o->path, SEEK_CUR) ? -errno : 0;
	at = sr_grow((void **)&s->libraries, s->libraries_n, &s->libraries_room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	*at = (struct sr_race_library){calloc(1, o->path + 1), o->begin, o->end, rank};
	if (!at->path)
		return -ENOMEM;
	s->libraries_n++;
	return fread(at->path, o->path, 1, f) == 1 ? 0 : -EIO;
}

static int keep(struct sr_race_stacks *s, uint32_t rank, const struct sr_stack_note *note, FILE *f)
{
	struct sr_race_stack_note *at;

	if (note->path)
		return keep_library(s, rank, (const struct sr_stack_object *)note, f);
	if (!note->hash)
		return sr_keymap_put(&s->codes, key(rank, note->site), note->code);
	at = sr_large_grow((void **)&s->notes, s->n, &s->room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	*at = (struct sr_race_stack_note){note->site, note->sn,     note->hash,
					  rank,       note->thread, note->fault};
	s->n++;
	if (sr_keymap_put(&s->codes, key(rank, note->site), note->code))
		return -ENOMEM;
	return note->frames ? keep_frames(s, rank, note, f) : 0;
}

int sr_race_stacks_read(struct sr_race_stacks *s, uint32_t rank, const char *path)
{
	FILE *f = fopen(path, "r");
	struct sr_stack_note note;
	int ret = 0;

	/* A rank that could not be replayed. */
	if (!f)
		return errno == ENOENT ? 0 : -errno;
	while (!ret && fread(&note, sizeof(note), 1, f) == 1)
		ret = keep(s, rank, &note, f);
	if (ferror(f))
		ret = -EIO;
	fclose(f);
	return ret;
}

static int by_position(const void *a, const void *b)
{
	const struct sr_race_stack_note *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	if (x->sn != y->sn)
		return x->sn < y->sn ? -1 : 1;
	return (x->fault > y->fault) - (x->fault < y->fault);
}

void sr_race_stacks_sort(struct sr_race_stacks *s)
{
	if (s->n)
		qsort(s->notes, s->n, sizeof(*s->notes), by_position);
}

void sr_race_stacks_free(struct sr_race_stacks *s)
{
	for (size_t i = 0; i < s->libraries_n; i++)
		free(s->libraries[i].path);
	free(s->libraries);
	sr_large_free(s->notes, s->room, sizeof(*s->notes));
	free(s->frames);
	sr_keymap_free(&s->places);
	sr_keymap_free(&s->codes);
}

uint64_t sr_race_code(const struct sr_race_stacks *s, uint32_t rank, uint64_t site)
{
	uint64_t code;

	return s && site && sr_keymap_get(&s->codes, key(rank, site), &code) ? code : 0;
}

/* The last note up to there; NULL: none. */
static const struct sr_race_stack_note *find(const struct sr_race_stacks *s, uint32_t rank, uint32_t thread, uint64_t site, uint64_t sn,
					     uint32_t fault)
{
	const struct sr_race_stack_note wanted = {site, sn, 0, rank, thread, fault};
	const struct sr_race_stack_note *found;
	size_t low = 0, high = s ? s->n : 0;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_position(&s->notes[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	found = &s->notes[low - 1];
	return found->rank == rank && found->thread == thread && found->site == site ? found : NULL;
}

uint64_t sr_race_stack(const struct sr_race_stacks *s, uint32_t rank, uint32_t thread, uint64_t site, uint64_t sn, uint32_t fault)
{
	const struct sr_race_stack_note *found = find(s, rank, thread, site, sn, fault);

	return found ? found->stack : 0;
}

uint64_t sr_race_stack_exactly(const struct sr_race_stacks *s, uint32_t rank, uint32_t thread, uint64_t site, uint64_t sn, uint32_t fault)
{
	const struct sr_race_stack_note *found = find(s, rank, thread, site, sn, fault);

	return found && found->sn == sn && found->fault == fault ? found->stack : 0;
}

size_t sr_race_stack_frames(const struct sr_race_stacks *s, uint32_t rank, uint64_t stack,
			    const uint64_t **frames)
{
	uint64_t at;

	if (!s || !stack || !sr_keymap_get(&s->places, key(rank, stack), &at))
		return 0;
	*frames = &s->frames[at + 1];
	return (size_t)s->frames[at];
}
