/* SPDX-License-Identifier: BSD-2-Clause */
/* rank.c: the calls of all threads, merged by their event numbers. */
#include "replay/analysis/log/rank.h"

#include <errno.h>
#include <stdlib.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/source.h"

static bool goes_before(const struct sr_log_source *a, const struct sr_log_source *b)
{
	if (a->key != b->key)
		return a->key < b->key;
	return a->clock != b->clock ? a->clock < b->clock : a->thread < b->thread;
}

static void sink(struct sr_log_rank *r, size_t i)
{
	struct sr_log_source *s = r->heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= r->heap_n)
			break;
		if (child + 1 < r->heap_n && goes_before(r->heap[child + 1], r->heap[child]))
			child++;
		if (!goes_before(r->heap[child], s))
			break;
		r->heap[i] = r->heap[child];
		i = child;
	}
	r->heap[i] = s;
}

static int complain(const struct sr_log_rank *r, const struct sr_log_source *s, int code,
		    struct sr_error *err)
{
	if (sr_stream_warning(s->stream))
		return sr_error_set(err, code, "%s", sr_stream_warning(s->stream));
	return sr_error_set(err, code, "rank %s thread %u SN %llu: %s", r->name, s->thread,
			    (unsigned long long)s->last_sn,
			    code == -ENOMEM ? "no memory left" : "a damaged record");
}

static int open_source(struct sr_log_rank *r, struct sr_log_source *s, struct sr_trace *t, uint32_t thread,
		       struct sr_error *err)
{
	int ret = sr_stream_open(&s->stream, t, r->number, thread, err);

	if (!ret)
		sr_stream_fold_cycles(s->stream);
	s->thread = thread;
	s->cut = true;
	if (ret)
		return ret;
	s->size = sr_stream_size(s->stream);
	r->size += s->size;
	return 0;
}

static int start(struct sr_log_rank *r, struct sr_error *err)
{
	for (size_t i = 0; i < r->sources_n; i++) {
		struct sr_log_source *s = &r->sources[i];
		int got = sr_log_advance(r, s);

		if (got < 0)
			return complain(r, s, got, err);
		if (got)
			r->heap[r->heap_n++] = s;
	}
	for (size_t i = r->heap_n / 2; i-- > 0;)
		sink(r, i);
	return 0;
}

int sr_log_rank_open(struct sr_log_rank **rank, struct sr_trace *t, int32_t number,
		     bool control_only, const struct sr_log_wanted *wanted, struct sr_error *err)
{
	struct sr_log_rank *r = calloc(1, sizeof(*r));
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, number, &threads);
	int ret;

	*rank = NULL;
	if (!r)
		return sr_error_set(err, -ENOMEM, "no memory left");
	r->number = number;
	r->name = sr_trace_rank_name(t, number);
	r->control_only = control_only;
	r->has_places = sr_trace_has_places(t, number);
	if (wanted)
		r->wanted = *wanted;
	r->sources = calloc(n + 1, sizeof(*r->sources));
	r->heap = calloc(n + 1, sizeof(*r->heap));
	ret = r->sources && r->heap ? 0 : sr_error_set(err, -ENOMEM, "no memory left");
	if (!ret)
		ret = sr_log_kinds_load(&r->kinds, t, number, err);
	for (size_t i = 0; i < n && !ret; i++) {
		ret = open_source(r, &r->sources[i], t, threads[i], err);
		r->sources_n++;
	}
	if (!ret)
		ret = start(r, err);
	if (ret)
		sr_log_rank_close(r);
	else
		*rank = r;
	return ret;
}

void sr_log_rank_close(struct sr_log_rank *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->sources_n; i++) {
		sr_stream_close(r->sources[i].stream);
		free(r->sources[i].clocks);
		free(r->sources[i].exposed);
		free(r->sources[i].bytes);
	}
	free(r->sources);
	free(r->heap);
	free(r->picked);
	free(r->changed);
	free(r);
}

static int advance_given(struct sr_log_rank *r, struct sr_error *err)
{
	int got = sr_log_advance(r, r->given);

	if (got < 0)
		return complain(r, r->given, got, err);
	if (!got)
		r->heap[0] = r->heap[--r->heap_n];
	if (r->heap_n)
		sink(r, 0);
	r->given = NULL;
	return 0;
}

/*
 * What was found between calls stands behind what its thread did last, as soon as that may be.  But the clock is the rank's:
 * events of other threads with lower numbers came before.
 */
static bool comes_too_early(const struct sr_log_rank *r, const struct sr_log_source *s)
{
	return s->call.is_part && s->clock > r->clock + 1;
}

/* Those that come too early go behind the first one that does not. */
static void put_back_early(struct sr_log_rank *r)
{
	const struct sr_log_source *first = NULL;

	if (!comes_too_early(r, r->heap[0]))
		return;
	for (size_t i = 1; i < r->heap_n; i++)
		if (!comes_too_early(r, r->heap[i]) && (!first || goes_before(r->heap[i], first)))
			first = r->heap[i];
	if (!first)
		return;
	for (size_t i = 0; i < r->heap_n; i++)
		if (comes_too_early(r, r->heap[i]) && r->heap[i]->key < first->key)
			r->heap[i]->key = first->key;
	for (size_t i = r->heap_n / 2; i-- > 0;)
		sink(r, i);
}

static void note_clock(struct sr_log_rank *r, const struct sr_log_call *c)
{
	for (size_t i = 0; i < c->clocks_n; i++)
		if (c->clocks[i].event > r->clock)
			r->clock = c->clocks[i].event;
}

int sr_log_rank_next(struct sr_log_rank *r, struct sr_log_call *call, struct sr_error *err)
{
	int ret = r->given ? advance_given(r, err) : 0;

	if (ret || !r->heap_n)
		return ret;
	put_back_early(r);
	r->given = r->heap[0];
	*call = r->given->call;
	note_clock(r, call);
	return 1;
}

uint64_t sr_log_rank_done(const struct sr_log_rank *r)
{
	uint64_t done = 0;

	for (size_t i = 0; i < r->sources_n; i++)
		done += r->sources[i].over ? r->sources[i].size : r->sources[i].offset;
	return done;
}

uint64_t sr_log_rank_size(const struct sr_log_rank *r)
{
	return r->size;
}

uint64_t sr_log_rank_records(const struct sr_log_rank *r)
{
	return r->records;
}

uint64_t sr_log_rank_holes(const struct sr_log_rank *r)
{
	return r->holes;
}

size_t sr_log_rank_cut(const struct sr_log_rank *r)
{
	size_t cut = 0;

	for (size_t i = 0; i < r->sources_n; i++)
		cut += r->sources[i].cut;
	return cut;
}

size_t sr_log_rank_threads(const struct sr_log_rank *r)
{
	return r->sources_n;
}

uint32_t sr_log_rank_thread(const struct sr_log_rank *r, size_t i,
			    const struct sr_stream_place **places, size_t *n)
{
	*places = sr_stream_places(r->sources[i].stream, n);
	return r->sources[i].thread;
}

struct sr_picked_payload *sr_log_rank_take_picked(struct sr_log_rank *r, size_t *n)
{
	struct sr_picked_payload *picked = r->picked;

	*n = r->picked_n;
	r->picked = NULL;
	r->picked_n = r->picked_room = 0;
	return picked;
}

struct sr_changed_payload *sr_log_rank_take_changed(struct sr_log_rank *r, size_t *n)
{
	struct sr_changed_payload *changed = r->changed;

	*n = r->changed_n;
	r->changed = NULL;
	r->changed_n = r->changed_room = 0;
	return changed;
}

/* A record that is no call.  1: s->call is what was found before it; 0; -errno. */
