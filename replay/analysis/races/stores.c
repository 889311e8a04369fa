/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/stores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/abi/watch.h"
#include "replay/analysis/log/grow.h"

static int keep(struct sr_race_stores *s, uint32_t rank, const struct sr_watch_store *found)
{
	struct sr_race_store *at = sr_grow((void **)&s->all, s->n, &s->room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = (struct sr_race_store){.sn = found->sn,
				     .address = found->address,
				     .rank = rank,
				     .thread = found->thread,
				     .length = found->length,
				     .fault = found->fault};
	s->n++;
	return 0;
}

int sr_race_stores_read(struct sr_race_stores *s, uint32_t rank, const char *path)
{
	FILE *f = fopen(path, "r");
	struct sr_watch_head head;
	struct sr_watch_store found;
	int ret = 0;

	if (!f)
		return -errno;
	if (fread(&head, sizeof(head), 1, f) != 1 || fseek(f, (long)(head.pages * sizeof(uint64_t)), SEEK_CUR))
		ret = -EIO;
	while (!ret && fread(&found, sizeof(found), 1, f) == 1)
		ret = keep(s, rank, &found);
	if (ferror(f))
		ret = -EIO;
	fclose(f);
	return ret;
}

static int by_call(const void *a, const void *b)
{
	const struct sr_race_store *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->sn != y->sn)
		return x->sn < y->sn ? -1 : 1;
	if (x->fault != y->fault)
		return x->fault < y->fault ? -1 : 1;
	return (x->address > y->address) - (x->address < y->address);
}

int sr_race_stores_sort(struct sr_race_stores *s)
{
	s->next = calloc(s->n + 1, sizeof(*s->next));
	if (!s->next)
		return -ENOMEM;
	if (s->n)
		qsort(s->all, s->n, sizeof(*s->all), by_call);
	return 0;
}

void sr_race_stores_free(struct sr_race_stores *s)
{
	free(s->all);
	free(s->next);
	free(s->doubts);
}

const struct sr_race_store *sr_race_stores_due(struct sr_race_stores *s, uint32_t rank, uint32_t thread, uint64_t sn,
					       uint32_t fault)
{
	const struct sr_race_store wanted = {.rank = rank, .thread = thread}, *found;
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_call(&s->all[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low + s->next[low] >= s->n)
		return NULL;
	found = &s->all[low + s->next[low]];
	if (found->rank != rank || found->thread != thread || found->sn > sn ||
	    (found->sn == sn && found->fault > fault))
		return NULL;
	s->next[low]++;
	return found;
}

/* ------------------------------------------------------- what is to be watched */

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The pages of these accesses, with repetitions. */
static int find_pages(const struct sr_race_model *m, uint32_t rank, uint64_t **pages, size_t *n)
{
	size_t room = 0;

	for (size_t i = 0; i < m->accesses_n; i++) {
		const struct sr_access *a = &m->accesses[i];

		if (a->owner != rank || a->kind == SR_ACCESS_LOAD || a->kind == SR_ACCESS_STORE)
			continue;
		for (uint64_t p = a->begin / SR_WATCH_PAGE; p <= (a->end - 1) / SR_WATCH_PAGE; p++) {
			uint64_t *at = sr_grow((void **)pages, *n, &room, sizeof(*at));

			if (!at)
				return -ENOMEM;
			*at = p * SR_WATCH_PAGE;
			(*n)++;
		}
	}
	return 0;
}

static size_t drop_repeated(uint64_t *pages, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(pages, n, sizeof(*pages), by_number);
	for (size_t i = 0; i < n; i++)
		if (!kept || pages[kept - 1] != pages[i])
			pages[kept++] = pages[i];
	return kept;
}

int sr_race_stores_ask(const struct sr_race_model *m, uint32_t rank, const char *path)
{
	uint64_t *pages = NULL;
	size_t n = 0;
	int ret = find_pages(m, rank, &pages, &n);
	FILE *f = ret ? NULL : fopen(path, "w");
	struct sr_watch_head head;
	bool fine;

	if (!f) {
		ret = ret ? ret : -errno;
		free(pages);
		return ret;
	}
	head.pages = n = drop_repeated(pages, n);
	fine = fwrite(&head, sizeof(head), 1, f) == 1 && fwrite(pages, sizeof(*pages), n, f) == n;
	fine &= fclose(f) == 0;
	free(pages);
	return fine ? (int)n : -EIO;
}
