/* SPDX-License-Identifier: BSD-2-Clause */
/* timeline_json.c: bars, arrows, requests and counters. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "replay/report/report.h"

#define STEPS 4000  /* of a counter, at most */
#define POSTS 20000 /* requests with their details */

/* ------------------------------------------------------------------- the bars */

/* Calls that are shown as one bar. */
struct bar {
	uint64_t begin, end, sn, calls;
	uint16_t kind; /* the most frequent one */
	uint64_t site;
};

static struct bar bar_of(const struct sr_track *k, size_t from, size_t to)
{
	struct bar b = {
	    .begin = k->slices[from].begin, .end = k->slices[to - 1].end, .sn = k->slices[from].sn};
	uint64_t most = 0;

	for (size_t i = from; i < to; i++) {
		uint64_t same = 0;

		b.calls += k->slices[i].count;
		for (size_t j = from; to - from > 1 && j < to && j < from + 16; j++)
			same += k->slices[j].kind == k->slices[i].kind;
		if (i < from + 16 && (same > most || i == from)) {
			most = same;
			b.kind = k->slices[i].kind;
			b.site = k->slices[i].site;
		}
	}
	return b;
}

enum column { BEGIN, LENGTH, KIND, SN, CALLS, SITE, COLUMNS };
static const char column_names[COLUMNS] = {'b', 'd', 'k', 's', 'c', 'w'};

/* One number of each bar; what grows is written as its growth. */
static void put_column(struct sr_report *r, const struct sr_track *k, enum column column)
{
	uint64_t begin = 0, sn = 0;

	fprintf(r->out, ",\"%c\":[", column_names[column]);
	for (size_t i = 0; i < k->n; i += r->chunk) {
		struct bar b = bar_of(k, i, i + r->chunk < k->n ? i + r->chunk : k->n);
		const uint64_t values[COLUMNS] = {
		    [BEGIN] = b.begin - begin,
		    [LENGTH] = b.end - b.begin,
		    [SN] = b.sn - sn,
		    [CALLS] = b.calls,
		    [KIND] = column == KIND
				 ? sr_strings_number(&r->strings,
						     sr_names_call(&r->g->names, k->rank, b.kind))
				 : 0,
		    [SITE] = column == SITE
				 ? sr_strings_number(&r->strings,
						     sr_names_site(&r->g->names, k->rank, b.site))
				 : 0};

		fprintf(r->out, "%s%" PRIu64, i ? "," : "", values[column]);
		begin = b.begin;
		sn = b.sn;
	}
	putc(']', r->out);
}

static void put_tracks(struct sr_report *r)
{
	const struct sr_timeline *t = &r->g->t;

	/* Milliseconds since 1970, as browsers count; 0: the axis is causal. */
	fprintf(r->out, "\"began\":%" PRIu64 ",\"coarse\":%s,", t->began / 1000000,
		t->is_coarse ? "true" : "false");
	fprintf(r->out, "\"chunk\":%zu,\"length\":%" PRIu64 ",\"calls\":%" PRIu64 ",\"tracks\":[",
		r->chunk, t->length, t->slices_n);
	for (size_t i = 0; i < t->tracks_n; i++) {
		const struct sr_track *k = &t->tracks[i];

		fprintf(r->out, "%s\n{\"rank\":%zu,\"thread\":%u,\"n\":%zu", i ? "," : "", k->rank,
			k->thread, k->n);
		for (enum column c = 0; c < COLUMNS; c++)
			put_column(r, k, c);
		putc('}', r->out);
	}
	fputs("],\n", r->out);
}

/* ----------------------------------------------------------------- the arrows */

struct arrow {
	uint32_t kind; /* enum sr_flow_kind, or WRITE_CERTAIN, WRITE_POSSIBLE */
	uint32_t from_track, from_bar, to_track, to_bar;
	uint32_t is_before, count; /* is_before: it ends at the begin of the bar */
	uint64_t from_sn, to_sn;
};

enum { WRITE_CERTAIN = SR_FLOWS, WRITE_POSSIBLE, ARROW_KINDS };
static const char *const arrow_names[ARROW_KINDS] = {[SR_FLOW_ORDER] = "order",
						     [SR_FLOW_MESSAGE] = "message",
						     [SR_FLOW_REQUEST] = "request",
						     [WRITE_CERTAIN] = "write",
						     [WRITE_POSSIBLE] = "maybe"};

static int by_ends(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	for (size_t i = 0; i < 6; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

static size_t collect(const struct sr_report *r, struct arrow *arrows)
{
	const struct sr_gathered *g = r->g;
	uint32_t chunk = (uint32_t)r->chunk;
	size_t n = 0;

	for (size_t i = 0; i < g->t.flows_n; i++) {
		const struct sr_flow *f = &g->t.flows[i];

		if (f->kind != SR_FLOW_START)
			arrows[n++] =
			    (struct arrow){f->kind,     f->from.track,       f->from.slice / chunk,
					   f->to.track, f->to.slice / chunk, f->is_before,
					   1,           f->from_sn,          f->to_sn};
	}
	for (size_t i = 0; i < g->writes_n; i++) {
		const struct sr_seen_write *w = &g->writes[i];

		arrows[n++] = (struct arrow){w->is_certain ? WRITE_CERTAIN : WRITE_POSSIBLE,
					     w->from.track,
					     w->from.slice / chunk,
					     w->to.track,
					     w->to.slice / chunk,
					     w->is_before,
					     1,
					     w->from_sn,
					     w->to_sn};
	}
	return n;
}

/* Arrows between the same bars become one. */
static size_t merge(struct arrow *arrows, size_t n)
{
	size_t kept = 0;

	if (!n)
		return 0;
	qsort(arrows, n, sizeof(*arrows), by_ends);
	for (size_t i = 1; i < n; i++) {
		if (by_ends(&arrows[kept], &arrows[i]))
			arrows[++kept] = arrows[i];
		else
			arrows[kept].count += arrows[i].count;
	}
	return kept + 1;
}

/* Until they are few enough, arrows begin and end at the first of so many bars. */
static size_t thin_out(struct arrow *arrows, size_t n)
{
	uint32_t coarse = 1;

	for (n = merge(arrows, n); n > SR_REPORT_ARROWS && coarse < 1u << 30;
	     n = merge(arrows, n)) {
		coarse *= 2;
		for (size_t i = 0; i < n; i++) {
			arrows[i].from_bar -= arrows[i].from_bar % coarse;
			arrows[i].to_bar -= arrows[i].to_bar % coarse;
		}
	}
	return n;
}

static int put_arrows(struct sr_report *r)
{
	struct arrow *arrows = calloc(r->g->t.flows_n + r->g->writes_n + 1, sizeof(*arrows));
	size_t n, i = 0;

	if (!arrows)
		return -ENOMEM;
	n = thin_out(arrows, collect(r, arrows));
	fputs("\"arrows\":{", r->out);
	for (uint32_t kind = 0, any = 0; kind < ARROW_KINDS; kind++) {
		if (!arrow_names[kind])
			continue;
		fprintf(r->out, "%s\n\"%s\":[", any++ ? "," : "", arrow_names[kind]);
		for (bool first = true; i < n && arrows[i].kind == kind; i++, first = false)
			fprintf(r->out, "%s%u,%u,%u,%u,%u,%" PRIu64 ",%" PRIu64 ",%u",
				first ? "" : ",", arrows[i].from_track, arrows[i].from_bar,
				arrows[i].to_track, arrows[i].to_bar, arrows[i].count,
				arrows[i].from_sn, arrows[i].to_sn, arrows[i].is_before);
		putc(']', r->out);
	}
	fputs("},\n", r->out);
	free(arrows);
	return 0;
}

/* ------------------------------------------------------ requests and counters */

/* A long list of steps keeps the highest of each piece. */
static int put_steps(struct sr_report *r)
{
	fputs("\"outstanding\":[", r->out);
	for (size_t rank = 0; rank < r->g->t.ranks_n; rank++) {
		size_t n, step;
		struct sr_step *steps = sr_timeline_outstanding(&r->g->t, rank, &n);

		if (!steps)
			return -ENOMEM;
		step = n / STEPS + 1;
		fputs(rank ? ",[" : "[", r->out);
		for (size_t i = 0; i < n; i += step) {
			int64_t most = steps[i].count;

			for (size_t k = i; k < i + step && k < n; k++)
				most = steps[k].count > most ? steps[k].count : most;
			fprintf(r->out, "%s%" PRIu64 ",%" PRId64, i ? "," : "", steps[i].time,
				most);
		}
		putc(']', r->out);
		free(steps);
	}
	fputs("],\n", r->out);
	return 0;
}

static void put_posts(struct sr_report *r)
{
	const struct sr_timeline *t = &r->g->t;

	fprintf(r->out, "\"postsTotal\":%zu,\"posts\":[", t->posts_n);
	for (size_t i = 0; i < t->posts_n && i < POSTS; i++) {
		const struct sr_post *p = &t->posts[i];

		fprintf(r->out, "%s[%u,%zu,%" PRIu64 ",%u,%u,%d,%" PRIu64 ",\"0x%" PRIx64 "\"]",
			i ? "," : "", p->at.track, p->at.slice / r->chunk, p->sn, p->opcode,
			p->qp_num, p->to == SR_NO_RANK ? -1 : (int)p->to, p->length, p->address);
	}
	fputs("],\n", r->out);
}

int sr_report_timeline(struct sr_report *r)
{
	int err;

	put_tracks(r);
	err = put_arrows(r);
	if (!err)
		err = put_steps(r);
	put_posts(r);
	return err;
}
