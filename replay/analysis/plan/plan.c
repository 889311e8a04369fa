/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "logd/trace/read_trace.h"
#include "logd/trace/safe_file.h"
#include "replay/analysis/plan/file.h"

#define REMEDY "make it again with sreplay process"

struct mapped {
	struct mapped *next;
	enum sr_plan_kind kind;
	int32_t rank;
	uint32_t thread;
	void *p; /* NULL: there is no such file */
	size_t size;
};

struct sr_plan {
	char dir[PATH_MAX];
	json_t *summary;
	int32_t *group;
	size_t group_n;
	uint64_t identity, group_hash;
	struct mapped *mapped;
};

static int add_stream(XXH3_state_t *sum, struct sr_trace *t, int32_t rank, uint32_t thread,
		      struct sr_error *err)
{
	struct sr_stream *s;
	uint64_t headers;
	int ret = sr_stream_open(&s, t, rank, thread, err);

	if (ret)
		return ret;
	ret = sr_stream_fingerprint(s, &headers);
	if (ret)
		sr_error_set(err, ret, "%s", sr_stream_warning(s));
	sr_stream_close(s);
	XXH3_64bits_update(sum, &thread, sizeof(thread));
	XXH3_64bits_update(sum, &headers, sizeof(headers));
	return ret;
}

/* Of the ranks with numbers from `first` to `last`. */
static int hash_ranks(struct sr_trace *t, int32_t first, int32_t last, uint64_t *hash, struct sr_error *err)
{
	XXH3_state_t *sum = XXH3_createState();
	int ret = sum ? 0 : sr_error_set(err, -ENOMEM, "no memory left");

	if (ret)
		return ret;
	XXH3_64bits_reset(sum);
	for (size_t i = 0; i < sr_trace_ranks(t) && !ret; i++) {
		int32_t rank = sr_trace_rank_number(t, i);
		const uint32_t *threads;
		size_t n = sr_trace_threads(t, rank, &threads);

		if (rank < first || rank > last)
			continue;
		XXH3_64bits_update(sum, &rank, sizeof(rank));
		XXH3_64bits_update(sum, sr_trace_process_id(t, rank), 16);
		for (size_t k = 0; k < n && !ret; k++)
			ret = add_stream(sum, t, rank, threads[k], err);
	}
	*hash = XXH3_64bits_digest(sum);
	XXH3_freeState(sum);
	return ret;
}

int sr_plan_identity(struct sr_trace *t, uint64_t *identity, struct sr_error *err)
{
	return hash_ranks(t, 0, SR_FIRST_ADOPTED - 1, identity, err);
}

int sr_plan_children_identity(struct sr_trace *t, uint64_t *identity, struct sr_error *err)
{
	return hash_ranks(t, SR_FIRST_ADOPTED, INT32_MAX, identity, err);
}

/* Of bytes, and of values. */
#define SUMMARY_MAX (8 << 20)

static int load_summary(struct sr_plan *p, struct sr_error *err)
{
	char path[PATH_MAX + 16];
	struct sr_safe_json summary;
	size_t values = SUMMARY_MAX;
	const char *format;
	struct stat st;

	snprintf(path, sizeof(path), "%s/plan.json", p->dir);
	if (lstat(p->dir, &st) || !S_ISDIR(st.st_mode) || access(path, F_OK))
		return sr_error_set(
		    err, -ENOENT, "there is no plan in %s: make one with sreplay process", p->dir);
	if (!sr_safe_json(path, SUMMARY_MAX, &values, &summary))
		p->summary = summary.root;
	format = json_string_value(json_object_get(p->summary, "format"));
	if (!format || strcmp(format, "sreplay-plan"))
		return sr_error_set(err, -EBADMSG, "%s is damaged: " REMEDY, path);
	if (json_integer_value(json_object_get(p->summary, "version")) != SR_PLAN_VERSION)
		return sr_error_set(err, -ESTALE, "%s is of another version: " REMEDY, path);
	return 0;
}

static bool get_identity(const struct sr_plan *p, const char *name, unsigned long long *identity)
{
	const char *text = json_string_value(json_object_get(p->summary, name));
	char end;

	return text && sscanf(text, "%16llx%c", identity, &end) == 1;
}

static int load_group(struct sr_plan *p, struct sr_error *err)
{
	const json_t *group = json_object_get(p->summary, "group");
	unsigned long long identity;

	p->group_n = json_array_size(group);
	p->group = calloc(p->group_n + 1, sizeof(*p->group));
	if (!p->group)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < p->group_n; i++)
		p->group[i] = (int32_t)json_integer_value(json_array_get(group, i));
	p->group_hash = sr_plan_group_hash(p->group, p->group_n);
	if (!p->group_n || !get_identity(p, "trace", &identity))
		return sr_error_set(err, -EBADMSG, "%s/plan.json is damaged: " REMEDY, p->dir);
	if (identity != p->identity)
		return sr_error_set(err, -ESTALE,
				    "the plan in %s is of another trace, or the trace has changed "
				    "since: " REMEDY,
				    p->dir);
	return 0;
}

/* A plan that knows of children serves those who look at the ranks only, but not the other way round. */
static int check_children(const struct sr_plan *p, struct sr_trace *t, struct sr_error *err)
{
	const size_t n = sr_trace_ranks(t);
	unsigned long long known;
	uint64_t children;
	int ret;

	if (!n || sr_trace_rank_number(t, n - 1) < SR_FIRST_ADOPTED)
		return 0;
	ret = sr_plan_children_identity(t, &children, err);
	if (!ret && (!get_identity(p, "children", &known) || known != children))
		ret = sr_error_set(err, -ESTALE, "the plan in %s does not have the processes that the ranks have forked: " REMEDY, p->dir);
	return ret;
}

int sr_plan_open(struct sr_plan **plan, struct sr_trace *t, struct sr_error *err)
{
	struct sr_plan *p = calloc(1, sizeof(*p));
	int ret;

	*plan = NULL;
	if (!p)
		return sr_error_set(err, -ENOMEM, "no memory left");
	snprintf(p->dir, sizeof(p->dir), "%s/plan", sr_trace_dir(t));
	ret = load_summary(p, err);
	if (!ret)
		ret = sr_plan_identity(t, &p->identity, err);
	if (!ret)
		ret = load_group(p, err);
	if (!ret)
		ret = check_children(p, t, err);
	if (ret)
		sr_plan_close(p);
	else
		*plan = p;
	return ret;
}

void sr_plan_close(struct sr_plan *p)
{
	if (!p)
		return;
	for (struct mapped *m = p->mapped, *next; m; m = next) {
		next = m->next;
		if (m->p)
			munmap(m->p, m->size);
		free(m);
	}
	json_decref(p->summary);
	free(p->group);
	free(p);
}

const int32_t *sr_plan_group(const struct sr_plan *p, size_t *n)
{
	*n = p->group_n;
	return p->group;
}

const json_t *sr_plan_summary(const struct sr_plan *p)
{
	return p->summary;
}

uint64_t sr_plan_trace_identity(const struct sr_plan *p)
{
	return p->identity;
}

/* What is wrong with a mapped file, or NULL. */
static const char *check(const struct sr_plan *p, const struct mapped *m)
{
	const struct sr_plan_header *h = m->p;
	size_t bytes = sr_plan_record_bytes(m->kind);

	if (m->size < sizeof(*h) || memcmp(h->magic, SR_PLAN_MAGIC, sizeof(h->magic)))
		return "is no file of a plan";
	if (h->header_checksum != XXH3_64bits(h, offsetof(struct sr_plan_header, header_checksum)))
		return "is damaged: a wrong checksum in its header";
	if (h->version != SR_PLAN_VERSION || h->kind != m->kind || h->rank != m->rank ||
	    h->thread != m->thread || h->identity != p->identity || h->group != p->group_hash)
		return "belongs to another plan";
	if (h->count > (m->size - sizeof(*h)) / bytes || m->size != sizeof(*h) + h->count * bytes)
		return "is damaged: a wrong size";
	if (h->checksum != XXH3_64bits(h + 1, h->count * bytes))
		return "is damaged: a wrong checksum";
	return NULL;
}

static int map(struct sr_plan *p, struct mapped *m, struct sr_error *err)
{
	char path[PATH_MAX];
	const char *wrong;
	struct stat st;
	int fd, ret = sr_plan_path(path, sizeof(path), p->dir, m->kind, m->rank, m->thread);

	if (ret)
		return sr_error_set(err, ret, "a path in %s is too long", p->dir);
	fd = sr_safe_open(path);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st)) {
		ret = fd < 0 ? fd : -errno;
		sr_error_set(err, ret, "cannot open %s: %s", path, sr_safe_reason(ret));
		goto out;
	}
	m->size = (size_t)st.st_size;
	if (m->size)
		m->p = mmap(NULL, m->size, PROT_READ, MAP_SHARED, fd, 0);
	if (m->p == MAP_FAILED) {
		m->p = NULL;
		ret = sr_error_set(err, -errno, "cannot map %s: %s", path, strerror(errno));
		goto out;
	}
	wrong = check(p, m);
	if (wrong)
		ret = sr_error_set(err, -EBADMSG, "%s %s: " REMEDY, path, wrong);
out:
	if (fd >= 0)
		close(fd);
	return ret;
}

static struct mapped *find(struct sr_plan *p, enum sr_plan_kind kind, int32_t rank, uint32_t thread)
{
	struct mapped *m = p->mapped;

	while (m && (m->kind != kind || m->rank != rank || m->thread != thread))
		m = m->next;
	return m;
}

int sr_plan_records(struct sr_plan *p, enum sr_plan_kind kind, int32_t rank, uint32_t thread,
		    const void **records, size_t *count, struct sr_error *err)
{
	struct mapped *m = find(p, kind, rank, thread);
	int ret;

	*records = NULL;
	*count = 0;
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return sr_error_set(err, -ENOMEM, "no memory left");
		*m = (struct mapped){.kind = kind, .rank = rank, .thread = thread};
		ret = map(p, m, err);
		if (ret) {
			if (m->p)
				munmap(m->p, m->size);
			free(m);
			return ret;
		}
		m->next = p->mapped;
		p->mapped = m;
	}
	if (m->p) {
		*records = (const struct sr_plan_header *)m->p + 1;
		*count = ((const struct sr_plan_header *)m->p)->count;
	}
	return 0;
}
