/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/plan/draft.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/plan/file.h"
#include "replay/analysis/plan/ledger.h"

struct sr_draft {
	const struct sr_links *links; /* for the ranks' numbers */
	size_t n;
	char trace[PATH_MAX - 128], dir[PATH_MAX - 64];
	struct sr_keymap *files;    /* by rank: (kind, thread) to a struct sr_plan_file */
	struct sr_plan_file **list; /* all of them */
	size_t list_n, list_room;
	struct sr_ledger **ledgers[SR_PLAN_KINDS]; /* n x n: [whose records][found by whom] */
	uint64_t dropped; /* by the ledgers */
};

static void remove_in(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (unlinkat(fd, e->d_name, 0) && errno == EISDIR)
			remove_in(fd, e->d_name);
	}
	if (d)
		closedir(d);
	unlinkat(at, name, AT_REMOVEDIR);
}

static void remove_directory(const char *dir)
{
	remove_in(AT_FDCWD, dir);
}

struct sr_draft *sr_draft_new(const char *trace, const struct sr_links *links, size_t ranks,
			      struct sr_error *err)
{
	struct sr_draft *d = calloc(1, sizeof(*d));

	if (!d) {
		sr_error_set(err, -ENOMEM, "no memory left");
		return NULL;
	}
	*d = (struct sr_draft){.links = links, .n = ranks};
	snprintf(d->trace, sizeof(d->trace), "%s", trace);
	snprintf(d->dir, sizeof(d->dir), "%s/.plan.%d", d->trace, getpid());
	remove_directory(d->dir);
	if (mkdir(d->dir, 0777)) {
		sr_error_set(err, -errno, "cannot make a plan in %s: %s", trace, strerror(errno));
		free(d);
		return NULL;
	}
	d->files = calloc(ranks + 1, sizeof(*d->files));
	if (d->files)
		return d;
	sr_error_set(err, -ENOMEM, "no memory left");
	sr_draft_free(d);
	return NULL;
}

static void free_ledgers(struct sr_ledger **ledgers, size_t n)
{
	for (size_t i = 0; ledgers && i < n; i++)
		sr_ledger_free(ledgers[i]);
	free(ledgers);
}

void sr_draft_free(struct sr_draft *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->list_n; i++)
		sr_plan_file_abandon(d->list[i]);
	for (size_t i = 0; d->files && i < d->n; i++)
		sr_keymap_free(&d->files[i]);
	for (size_t kind = 0; kind < SR_PLAN_KINDS; kind++)
		free_ledgers(d->ledgers[kind], d->n * d->n);
	free(d->list);
	free(d->files);
	remove_directory(d->dir);
	free(d);
}

static struct sr_plan_file *file_of(struct sr_draft *d, enum sr_plan_kind kind, size_t rank,
				    uint32_t thread)
{
	uint64_t key = (uint64_t)kind << 32 | thread, value;
	struct sr_plan_file *f;

	if (sr_keymap_get(&d->files[rank], key, &value))
		return (struct sr_plan_file *)(uintptr_t)value;
	if (d->list_n == d->list_room) {
		size_t room = d->list_room ? 2 * d->list_room : 64;
		struct sr_plan_file **more = realloc(d->list, room * sizeof(*more));

		if (!more)
			return NULL;
		d->list = more;
		d->list_room = room;
	}
	f = sr_plan_file_new(d->dir, kind, d->links->ranks[rank].number, thread);
	if (!f || sr_keymap_put(&d->files[rank], key, (uintptr_t)f)) {
		sr_plan_file_abandon(f);
		return NULL;
	}
	d->list[d->list_n++] = f;
	return f;
}

int sr_draft_add(struct sr_draft *d, enum sr_plan_kind kind, size_t rank, uint32_t thread,
	       const void *record)
{
	struct sr_plan_file *f = file_of(d, kind, rank, thread);

	return f ? sr_plan_file_add(f, record) : -ENOMEM;
}

int sr_draft_defer(struct sr_draft *d, enum sr_plan_kind kind, size_t rank, size_t by,
		   uint32_t thread, uint64_t key, const void *record)
{
	const size_t bytes = sr_plan_record_bytes(kind);
	uint8_t with_thread[SR_DRAFT_BYTES + sizeof(uint64_t)];
	const uint64_t number = thread;
	struct sr_ledger **at;
	char name[64];

	if (!d->ledgers[kind])
		d->ledgers[kind] = calloc(d->n * d->n + 1, sizeof(*d->ledgers[kind]));
	if (!d->ledgers[kind])
		return -ENOMEM;
	at = &d->ledgers[kind][rank * d->n + by];
	if (!*at) {
		snprintf(name, sizeof(name), "kind-%d.%zu", kind, rank * d->n + by);
		*at = sr_ledger_new(d->dir, name, bytes + sizeof(number));
	}
	if (!*at)
		return -ENOMEM;
	memcpy(with_thread, record, bytes);
	memcpy(with_thread + bytes, &number, sizeof(number));
	return sr_ledger_add(*at, key, with_thread);
}

/* The heads of some ledgers, and the lowest of them. */
struct merge {
	struct sr_ledger **ledgers;
	size_t n, bytes;
	uint64_t *keys; /* UINT64_MAX: at its end */
	uint8_t *records;
};

static int pull(struct merge *g, size_t i)
{
	int got = g->ledgers[i]
		      ? sr_ledger_next(g->ledgers[i], &g->keys[i], g->records + i * g->bytes)
		      : 0;

	if (!got)
		g->keys[i] = UINT64_MAX;
	return got < 0 ? got : 0;
}

/*
 * Takes all records out of the ledgers, ascending, and gives them to the file of
 * their thread, whose number is the last 8 bytes of each.
 */
static int merge(struct sr_draft *d, struct sr_ledger **ledgers, size_t n, enum sr_plan_kind kind,
		 size_t rank)
{
	size_t bytes = sr_plan_record_bytes(kind) + sizeof(uint64_t);
	struct merge g = {ledgers, n, bytes, calloc(n, sizeof(uint64_t)), calloc(n, bytes)};
	int err = g.keys && g.records ? 0 : -ENOMEM;
	uint64_t thread;

	for (size_t i = 0; i < n && !err; i++)
		err = pull(&g, i);
	while (!err) {
		size_t least = 0;

		for (size_t i = 1; i < n; i++)
			if (g.keys[i] < g.keys[least])
				least = i;
		if (g.keys[least] == UINT64_MAX)
			break;
		memcpy(&thread, g.records + (least + 1) * bytes - sizeof(thread), sizeof(thread));
		err = sr_draft_add(d, kind, rank, (uint32_t)thread, g.records + least * bytes);
		if (!err)
			err = pull(&g, least);
	}
	for (size_t i = 0; i < n; i++) {
		d->dropped += ledgers[i] ? sr_ledger_dropped(ledgers[i]) : 0;
		sr_ledger_free(ledgers[i]);
		ledgers[i] = NULL;
	}
	free(g.keys);
	free(g.records);
	return err;
}

int sr_draft_merge(struct sr_draft *d)
{
	int err = 0;

	for (size_t i = 0; i < d->n && !err; i++)
		for (int kind = 0; kind < SR_PLAN_KINDS && !err; kind++)
			if (d->ledgers[kind])
				err = merge(d, d->ledgers[kind] + i * d->n, d->n,
					    (enum sr_plan_kind)kind, i);
	return err;
}

uint64_t sr_draft_dropped(const struct sr_draft *d)
{
	return d->dropped;
}

static int finish_files(struct sr_draft *d, uint64_t identity, uint64_t group)
{
	int err = 0;

	for (size_t i = 0; i < d->list_n; i++) {
		int its = sr_plan_file_finish(d->list[i], identity, group);

		err = err ? err : its;
	}
	d->list_n = 0;
	return err;
}

static int put_summary(const struct sr_draft *d, const json_t *summary)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/plan.json", d->dir);
	return json_dump_file(summary, path, JSON_INDENT(1)) ? -EIO : 0;
}

static int put_in_place(const struct sr_draft *d)
{
	char plan[PATH_MAX], old[PATH_MAX];

	snprintf(plan, sizeof(plan), "%s/plan", d->trace);
	if (!rename(d->dir, plan))
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	snprintf(old, sizeof(old), "%s/.plan-old.%d", d->trace, getpid());
	if (rename(plan, old) || rename(d->dir, plan))
		return -errno;
	remove_directory(old);
	return 0;
}

int sr_draft_publish(struct sr_draft *d, const json_t *summary, uint64_t identity, uint64_t group)
{
	int err = finish_files(d, identity, group);

	if (!err)
		err = put_summary(d, summary);
	return err ? err : put_in_place(d);
}
