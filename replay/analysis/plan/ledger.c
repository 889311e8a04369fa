/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/plan/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPOSED     512  /* records; it starts smaller */
#define LATE_LIMIT 8192 /* records */

/* Records, each behind its key, ascending by key. */
struct list {
	uint8_t *p;
	size_t used, room;
};

struct sr_ledger {
	char path[PATH_MAX];
	size_t stride;
	struct list exposed, late;
	uint64_t written; /* records in the file */
	uint64_t last;    /* the highest key in it */
	uint64_t dropped;

	/* Reading. */
	uint64_t read; /* records taken from the file */
	struct list block;
	size_t block_at, late_at;
};

struct sr_ledger *sr_ledger_new(const char *dir, const char *name, size_t bytes)
{
	struct sr_ledger *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->stride = sizeof(uint64_t) + bytes;
	snprintf(l->path, sizeof(l->path), "%s/%s", dir, name);
	return l;
}

void sr_ledger_free(struct sr_ledger *l)
{
	if (!l)
		return;
	if (l->written)
		unlink(l->path);
	free(l->exposed.p);
	free(l->late.p);
	free(l->block.p);
	free(l);
}

uint64_t sr_ledger_dropped(const struct sr_ledger *l)
{
	return l->dropped;
}

static uint64_t key_at(const struct sr_ledger *l, const struct list *list, size_t i)
{
	uint64_t key;

	memcpy(&key, list->p + i * l->stride, sizeof(key));
	return key;
}

static int make_room(struct sr_ledger *l, struct list *list)
{
	size_t room = list->room ? 2 * list->room : 16;
	uint8_t *more;

	if (list->used < list->room)
		return 0;
	more = realloc(list->p, room * l->stride);
	if (!more)
		return -ENOMEM;
	list->p = more;
	list->room = room;
	return 0;
}

/* After those with the same key. */
static int insert(struct sr_ledger *l, struct list *list, uint64_t key, const void *record)
{
	size_t at = list->used;
	int err = make_room(l, list);

	if (err)
		return err;
	while (at && key_at(l, list, at - 1) > key)
		at--;
	memmove(list->p + (at + 1) * l->stride, list->p + at * l->stride,
		(list->used - at) * l->stride);
	memcpy(list->p + at * l->stride, &key, sizeof(key));
	memcpy(list->p + at * l->stride + sizeof(key), record, l->stride - sizeof(key));
	list->used++;
	return 0;
}

static int append(struct sr_ledger *l, const void *data, size_t size)
{
	int fd = open(l->path,
		      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (l->written ? 0 : O_TRUNC), 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	while (size && !err) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno != EINTR)
			err = -errno;
		if (n > 0) {
			data = (const char *)data + n;
			size -= (size_t)n;
		}
	}
	close(fd);
	return err;
}

/* Writes the older half of the records in memory to the file. */
static int spill(struct sr_ledger *l)
{
	struct list *w = &l->exposed;
	size_t half = w->used / 2;
	int err = append(l, w->p, half * l->stride);

	if (err)
		return err;
	l->last = key_at(l, w, half - 1);
	l->written += half;
	w->used -= half;
	memmove(w->p, w->p + half * l->stride, w->used * l->stride);
	return 0;
}

int sr_ledger_add(struct sr_ledger *l, uint64_t key, const void *record)
{
	int err;

	if (l->written && key < l->last) {
		if (l->late.used < LATE_LIMIT)
			return insert(l, &l->late, key, record);
		l->dropped++;
		return 0;
	}
	err = l->exposed.used == EXPOSED ? spill(l) : 0;
	return err ? err : insert(l, &l->exposed, key, record);
}

static int load_block(struct sr_ledger *l)
{
	size_t want = l->written - l->read < EXPOSED ? l->written - l->read : EXPOSED, got = 0;
	off_t from = (off_t)(l->read * l->stride);
	int fd;

	l->block_at = l->block.used = 0;
	if (!l->block.p) {
		l->block.p = malloc(EXPOSED * l->stride);
		if (!l->block.p)
			return -ENOMEM;
	}
	fd = open(l->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (got < want * l->stride) {
		ssize_t n = pread(fd, l->block.p + got, want * l->stride - got, from + (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			close(fd);
			return n ? -errno : -EIO;
		}
		got += (size_t)n;
	}
	close(fd);
	l->block.used = want;
	l->read += want;
	return 0;
}

/* The records in order: first the file, then those in memory, which become a block. */
static int refill(struct sr_ledger *l)
{
	if (l->read < l->written)
		return load_block(l);
	free(l->block.p);
	l->block = l->exposed;
	l->exposed = (struct list){0};
	l->block_at = 0;
	return 0;
}

static int take(struct sr_ledger *l, const struct list *list, size_t *at, uint64_t *key,
		void *record)
{
	*key = key_at(l, list, *at);
	memcpy(record, list->p + *at * l->stride + sizeof(*key), l->stride - sizeof(*key));
	++*at;
	return 1;
}

int sr_ledger_next(struct sr_ledger *l, uint64_t *key, void *record)
{
	bool late, there;
	int err;

	while (l->block_at == l->block.used && (l->read < l->written || l->exposed.used)) {
		err = refill(l);
		if (err)
			return err;
	}
	late = l->late_at < l->late.used;
	there = l->block_at < l->block.used;
	if (late && (!there || key_at(l, &l->late, l->late_at) < key_at(l, &l->block, l->block_at)))
		return take(l, &l->late, &l->late_at, key, record);
	return there ? take(l, &l->block, &l->block_at, key, record) : 0;
}
