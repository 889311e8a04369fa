/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/children.h"

#include "replay/analysis/log/kinds.h"

/* Does this record show that the process took part in what the ranks do to each other? */
static bool shows_part(const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	enum sr_what what;

	if (e->kind < SR_REC_CALL)
		return e->kind == SR_REC_EXPOSED;
	what = sr_log_what(kinds, e->kind);
	return what != SR_WHAT_NOTHING && what != SR_WHAT_ANNOTATION && what != SR_WHAT_ACCESSES;
}

static bool stream_shows_part(struct sr_trace *t, int32_t rank, uint32_t thread, const struct sr_log_kinds *kinds)
{
	struct sr_stream *s;
	struct sr_error err;
	struct sr_entry e;
	bool shows = false;

	if (sr_stream_open(&s, t, rank, thread, &err))
		return false;
	while (!shows && sr_stream_next(s, &e) > 0)
		shows = shows_part(kinds, &e);
	sr_stream_close(s);
	return shows;
}

static bool takes_part(struct sr_trace *t, int32_t rank)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, rank, &threads);
	struct sr_log_kinds kinds;
	struct sr_error err;

	if (sr_log_kinds_load(&kinds, t, rank, &err))
		return false;
	for (size_t i = 0; i < n; i++)
		if (stream_shows_part(t, rank, threads[i], &kinds))
			return true;
	return false;
}

static int adopt_children(struct sr_trace *job, struct sr_trace *t, int32_t rank, struct sr_error *err);

static int adopt_child(struct sr_trace *job, const char *dir, int32_t rank, struct sr_error *err)
{
	struct sr_trace *t;
	int ret = 0;

	if (sr_trace_open(&t, dir, err))
		return 0;
	if (takes_part(t, rank))
		ret = sr_trace_adopt(job, dir, rank, err);
	if (!ret)
		ret = adopt_children(job, t, rank, err);
	sr_trace_close(t);
	return ret;
}

/* Those of the image that is chosen. */
static int adopt_children_of_image(struct sr_trace *job, struct sr_trace *t, int32_t rank, struct sr_error *err)
{
	char **dirs;
	size_t n;
	int ret = 0;

	if (sr_trace_children(t, rank, &dirs, &n))
		return 0;
	for (size_t i = 0; i < n && !ret; i++)
		ret = adopt_child(job, dirs[i], rank, err);
	sr_trace_children_free(dirs, n);
	return ret;
}

/* Leaves the last image chosen. */
static int adopt_children(struct sr_trace *job, struct sr_trace *t, int32_t rank, struct sr_error *err)
{
	const uint32_t images = sr_trace_images(t, rank);
	int ret = 0;

	for (uint32_t i = 0; i < images && !ret; i++) {
		ret = sr_trace_choose_image(t, rank, i, err);
		if (!ret)
			ret = adopt_children_of_image(job, t, rank, err);
	}
	return ret;
}

int sr_children_adopt(struct sr_trace *t, struct sr_error *err)
{
	const size_t n = sr_trace_ranks(t);
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		ret = adopt_children(t, t, sr_trace_rank_number(t, i), err);
	return ret;
}
