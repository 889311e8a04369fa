/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/report/gather.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/grow.h"
#include "replay/print/marks.h"

/* The share of the timeline in the progress; the rest is for explanations. */
#define TIMELINE 0.5

struct gathering {
	struct sr_gathered *g;
	void (*progress)(double done);
};

static void say(void *argument, double done)
{
	const struct gathering *x = argument;

	if (x->progress)
		x->progress(TIMELINE * done);
}

/* ------------------------------------------------------------ the records */

static int take_value(void *argument, const struct sr_value *v)
{
	struct sr_gathered *g = ((struct gathering *)argument)->g;
	struct sr_seen_value *at =
	    sr_grow((void **)&g->values, g->values_n, &g->values_room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = (struct sr_seen_value){.rank = v->rank,
				     .at = v->at,
				     .site = v->site,
				     .length = v->length,
				     .class = v->is_exposed   ? SR_VALUE_EXPOSED
					      : v->is_message ? SR_VALUE_MESSAGE
							      : SR_VALUE_FETCHED};
	g->values_n++;
	return 0;
}

static int take_entry(void *argument, size_t rank, const struct sr_entry *e)
{
	struct sr_gathered *g = ((struct gathering *)argument)->g;
	struct sr_seen_rank *r;
	enum sr_mark reason;
	char sentence[512];
	int32_t status;

	if (!g->ranks)
		g->ranks = calloc(sr_trace_ranks(g->trace) + 1, sizeof(*g->ranks));
	if (!g->ranks)
		return -ENOMEM;
	r = &g->ranks[rank];
	r->records++;
	r->bytes += e->size;
	if (e->kind < 16)
		r->other_bytes[e->kind] += e->size;
	/* An earlier image's threads end with it. */
	if (g->t.image) {
		sr_exposed_sum_add(&r->exposed, e);
		return 0;
	}
	if (sr_entry_exit(e, &status)) {
		r->ended++;
		snprintf(r->end, sizeof(r->end), "ended with status %d", status);
	} else if (sr_entry_mark(e, &reason, sentence, sizeof(sentence))) {
		r->dropped += reason == SR_MARK_DROPPED;
		r->ended += reason == SR_MARK_ENDED;
		if (reason != SR_MARK_ENDED)
			snprintf(r->end, sizeof(r->end), "%.255s", sentence);
	}
	sr_exposed_sum_add(&r->exposed, e);
	return 0;
}

/* ---------------------------------------------------------------- the sites */

static int by_site(const void *a, const void *b)
{
	const struct sr_seen_site *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static int by_calls(const void *a, const void *b)
{
	const struct sr_seen_site *x = a, *y = b;

	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	return by_site(a, b);
}

/* Adds up neighbours that are the same place. */
static void merge_sites(struct sr_gathered *g)
{
	size_t kept = 0;

	if (!g->sites_n)
		return;
	qsort(g->sites, g->sites_n, sizeof(*g->sites), by_site);
	for (size_t i = 1; i < g->sites_n; i++) {
		if (by_site(&g->sites[kept], &g->sites[i])) {
			g->sites[++kept] = g->sites[i];
			continue;
		}
		g->sites[kept].calls += g->sites[i].calls;
		g->sites[kept].bytes += g->sites[i].bytes;
	}
	g->sites_n = kept + 1;
}

/* Merges first, now and then, so that memory does not grow with the trace. */
static int add_site(struct sr_gathered *g, struct sr_seen_site site)
{
	if (g->sites_n == g->sites_room)
		merge_sites(g);
	if (g->sites_n == g->sites_room || 4 * g->sites_n >= 3 * g->sites_room) {
		size_t room = g->sites_room ? 2 * g->sites_room : 1024;
		struct sr_seen_site *more = realloc(g->sites, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		g->sites = more;
		g->sites_room = room;
	}
	g->sites[g->sites_n++] = site;
	return 0;
}

static int count_sites(struct sr_gathered *g)
{
	int err = 0;

	for (size_t i = 0; i < g->t.tracks_n && !err; i++)
		for (size_t s = 0; s < g->t.tracks[i].n && !err; s++) {
			const struct sr_slice *slice = &g->t.tracks[i].slices[s];

			err = add_site(g, (struct sr_seen_site){g->t.tracks[i].rank, slice->site,
								slice->kind, slice->count,
								slice->bytes});
		}
	for (size_t i = 0; i < g->values_n && !err; i++)
		if (g->values[i].at.fault)
			err = add_site(g, (struct sr_seen_site){g->values[i].rank,
								g->values[i].site + 1, 0, 1,
								g->values[i].length});
	merge_sites(g);
	if (g->sites_n)
		qsort(g->sites, g->sites_n, sizeof(*g->sites), by_calls);
	return err;
}

static int count_traffic(struct sr_gathered *g)
{
	if (sr_traffic_init(&g->traffic, g->t.ranks_n))
		return -ENOMEM;
	for (size_t i = 0; i < g->t.posts_n; i++) {
		const struct sr_post *p = &g->t.posts[i];

		sr_traffic_add(&g->traffic, g->t.tracks[p->at.track].rank,
			       p->to == SR_NO_RANK ? g->t.ranks_n : p->to, p->opcode, p->length);
	}
	return 0;
}

/* ------------------------------------------------------------- the values */

/* All values, or as many as can be explained, at even distances. */
static int explain_values(struct sr_gathered *g, struct sr_error *err)
{
	size_t step = g->values_n / SR_REPORT_VALUES + 1, n = 0, kept = 0;

	g->calls = calloc(g->values_n / step + 2, sizeof(*g->calls));
	if (!g->calls)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < g->values_n; i += step)
		g->calls[n++] = (struct sr_explained_call){
		    g->values[i].rank, g->values[i].at.thread, g->values[i].at.sn};
	qsort(g->calls, n, sizeof(*g->calls), sr_explained_call_order);
	for (size_t i = 0; i < n; i++)
		if (!i || sr_explained_call_order(&g->calls[kept - 1], &g->calls[i]))
			g->calls[kept++] = g->calls[i];
	g->explained = (struct sr_explanation){
	    .trace = g->trace, .calls = g->calls, .calls_n = kept, .most = SR_REPORT_VALUES};
	return kept ? sr_explain(&g->explained, err) : 0;
}

struct access {
	size_t rank;
	uint32_t thread, fault;
	uint64_t sn, length;
};

static int add_write(struct sr_gathered *g, size_t rank, uint32_t thread, uint64_t sn,
		     const struct access *by, bool is_certain)
{
	struct sr_seen_write w = {
	    .from_sn = sn, .to_sn = by->sn, .length = by->length, .is_certain = is_certain};
	struct sr_seen_write *at;

	if (!sr_timeline_find(&g->t, rank, thread, sn, &w.from) ||
	    !sr_timeline_find(&g->t, by->rank, by->thread, by->sn, &w.to))
		return 0;
	/* A load after a call precedes the next one. */
	if (by->fault && w.to.slice + 1 < g->t.tracks[w.to.track].n) {
		w.to.slice++;
		w.is_before = true;
	}
	at = sr_grow((void **)&g->writes, g->writes_n, &g->writes_room, sizeof(w));
	if (!at)
		return -ENOMEM;
	*at = w;
	g->writes_n++;
	return 0;
}

/* A replay has compared the bytes of all values. */
static int take_found(struct sr_gathered *g, size_t rank)
{
	int err = 0;

	for (size_t i = 0; i < g->found_n[rank] && !err; i++) {
		const struct sr_found_value *f = &g->found[rank][i];
		size_t from = 0;

		while (from < g->t.ranks_n && g->t.links.ranks[from].number != f->producer)
			from++;
		/* Without a fault a completion brought it: a message, or what was fetched. */
		if (from < g->t.ranks_n && f->fault)
			err =
			    add_write(g, from, f->producer_thread, f->producer_sn,
				      &(struct access){rank, f->thread, f->fault, f->sn, f->length},
				      !(f->flags & SR_FOUND_SEVERAL));
	}
	return err;
}

static int take_explained(struct sr_gathered *g)
{
	int err = 0;

	for (size_t i = 0; i < g->explained.values_n && !err; i++) {
		const struct sr_explained *k = &g->explained.values[i];
		const struct sr_written *w;
		bool is_certain;
		size_t from;

		w = k->v.is_exposed ? sr_explained_writer(k, g->t.ranks_n, &from, &is_certain)
				    : NULL;
		if (w)
			err = add_write(g, from, w->at.thread, w->at.sn,
					&(struct access){k->v.rank, k->v.at.thread, k->v.at.fault,
							 k->v.at.sn, k->v.length},
					is_certain);
	}
	return err;
}

static int load_found(struct sr_gathered *g, struct sr_error *err)
{
	int ret = 0;

	g->found = calloc(g->t.ranks_n + 1, sizeof(*g->found));
	g->found_n = calloc(g->t.ranks_n + 1, sizeof(*g->found_n));
	if (!g->found || !g->found_n)
		return sr_error_set(err, -ENOMEM, "no memory left");
	/* Without a plan there was no replay; a damaged one is as none. */
	if (sr_plan_open(&g->plan, g->trace, NULL))
		return 0;
	for (size_t i = 0; i < g->t.ranks_n && !ret; i++) {
		const void *records = NULL;

		ret = sr_plan_records(g->plan, SR_PLAN_FOUND, g->t.links.ranks[i].number, 0,
				      &records, &g->found_n[i], err);
		g->found[i] = records;
		g->is_replayed |= g->found_n[i] > 0;
	}
	return ret;
}

static int find_writes(struct sr_gathered *g, struct sr_error *err)
{
	int ret = 0;

	for (size_t i = 0; g->is_replayed && i < g->t.ranks_n && !ret; i++)
		ret = take_found(g, i);
	if (!g->is_replayed)
		ret = take_explained(g);
	return ret ? sr_error_set(err, ret, "no memory left") : 0;
}

int sr_gather(struct sr_gathered *g, struct sr_trace *t, void (*progress)(double done),
	      struct sr_error *err)
{
	struct gathering x = {g, progress};
	const struct sr_timeline_hooks hooks = {
	    .value = take_value, .entry = take_entry, .progress = say, .argument = &x};
	int ret;

	*g = (struct sr_gathered){.trace = t};
	ret = sr_timeline_load(&g->t, t, &hooks, err);
	if (!ret)
		ret = sr_names_load(&g->names, &g->t, err);
	if (!ret && !g->ranks)
		g->ranks = calloc(sr_trace_ranks(t) + 1, sizeof(*g->ranks));
	if (!ret && (!g->ranks || count_sites(g) || count_traffic(g)))
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	if (!ret)
		ret = load_found(g, err);
	if (!ret)
		ret = explain_values(g, err);
	if (!ret)
		ret = find_writes(g, err);
	if (!ret && progress)
		progress(1);
	return ret;
}

void sr_gather_free(struct sr_gathered *g)
{
	sr_explain_free(&g->explained);
	sr_names_free(&g->names);
	sr_timeline_free(&g->t);
	sr_traffic_free(&g->traffic);
	sr_plan_close(g->plan);
	free(g->ranks);
	free(g->values);
	free(g->sites);
	free(g->writes);
	free(g->calls);
	free(g->found);
	free(g->found_n);
	*g = (struct sr_gathered){0};
}
