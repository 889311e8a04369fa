/* SPDX-License-Identifier: BSD-2-Clause */
/* facts_json.c: ranks, health, traffic, values and costs. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "replay/print/json_text.h"
#include "replay/print/explained.h"
#include "replay/report/report.h"

#define SITES     60   /* of calls, and of loads */
#define TEXT_MOST 4000 /* of an explanation */

/* ------------------------------------------------------------- ranks and health */

static void put_member(FILE *out, const char *name, const char *text)
{
	fprintf(out, ",\"%s\":", name);
	sr_json_text(out, text ? text : "");
}

static void put_rank(struct sr_report *r, size_t i)
{
	const struct sr_seen_rank *seen = &r->g->ranks[i];
	int32_t number = r->g->t.links.ranks[i].number;
	const json_t *process = sr_trace_process(r->g->trace, number);
	char *command = sr_names_command(&r->g->names, i);

	fprintf(r->out,
		"%s\n{\"n\":%d,\"threads\":%zu,\"records\":%" PRIu64 ",\"bytes\":%" PRIu64
		",\"exposedValues\":%" PRIu64,
		i ? "," : "", number, r->g->t.first_track[i + 1] - r->g->t.first_track[i],
		seen->records, seen->bytes, seen->exposed.values);
	put_member(r->out, "command", command);
	put_member(r->out, "host", json_string_value(json_object_get(process, "hostname")));
	put_member(r->out, "end",
		   *seen->end ? seen->end : "no end: still running, or the trace is cut");
	putc('}', r->out);
	free(command);
}

struct health {
	FILE *out;
	bool any;
};

/* level: "good", "doubt" or "bad". */
__attribute__((format(printf, 3, 4))) static void put_health(struct health *h, const char *level,
							     const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	fprintf(h->out, "%s[\"%s\",", h->any ? "," : "", level);
	sr_json_text(h->out, text);
	putc(']', h->out);
	h->any = true;
}

typedef unsigned long long ull;

static void put_ends(const struct sr_report *r, struct health *h)
{
	const struct sr_gathered *g = r->g;
	size_t whole = 0;
	uint64_t dropped = 0;

	for (size_t i = 0; i < g->t.ranks_n; i++) {
		size_t threads = g->t.first_track[i + 1] - g->t.first_track[i];

		dropped += g->ranks[i].dropped;
		if (sr_trace_images(g->trace, g->t.links.ranks[i].number) > 1)
			put_health(
			    h, "doubt",
			    "rank %d executed %u programs in turn: values and their producers are those of the last one",
			    g->t.links.ranks[i].number,
			    sr_trace_images(g->trace, g->t.links.ranks[i].number));
		if (g->ranks[i].ended >= threads)
			whole++;
		else
			put_health(h, "bad", "rank %d: %s", g->t.links.ranks[i].number,
				   *g->ranks[i].end
				       ? g->ranks[i].end
				       : "a thread's stream has no end: it still runs, or the "
					 "trace is cut");
	}
	if (whole)
		put_health(h, "good", "%zu of %zu ranks are recorded to their end", whole,
			   g->t.ranks_n);
	if (dropped || g->t.counts.holes)
		put_health(h, "bad", "%llu calls are missing: a replay ends at the first hole",
			   (ull)g->t.counts.holes);
}

/* Memory that is not protected: what peers write there is found at calls only. */
static void put_compared(const struct sr_report *r, struct health *h)
{
	for (size_t i = 0; i < r->g->t.ranks_n; i++) {
		const struct sr_exposed_sum *sum = &r->g->ranks[i].exposed;
		uint64_t regions = 0;

		for (size_t why = 0; why < sizeof(sum->compared) / sizeof(*sum->compared); why++)
			regions += sum->compared[why];
		if (regions)
			put_health(h, "doubt",
				   "rank %d: %llu regions that peers write are compared at calls, "
				   "not protected: "
				   "what a load finds there is recorded at the next call (sreplay "
				   "info says why)",
				   r->g->t.links.ranks[i].number, (ull)regions);
	}
}

static void put_exactness(const struct sr_report *r, struct health *h)
{
	const struct sr_process_counts *c = &r->g->t.counts;
	size_t with_clocks = 0;

	for (size_t i = 0; i < r->g->t.ranks_n; i++)
		with_clocks += r->g->t.links.ranks[i].member >= 0;
	if (with_clocks < r->g->t.ranks_n)
		put_health(
		    h, "doubt",
		    "%zu of %zu ranks were recorded without --clocks: between their WRITEs and the "
		    "accesses that find them no order is known",
		    r->g->t.ranks_n - with_clocks, r->g->t.ranks_n);
	if (r->g->is_replayed)
		put_health(h, "good",
			   "a replay has compared the bytes: producers are its findings");
	else
		put_health(h, "doubt",
			   "no replay of this trace has compared bytes yet: producers are told by "
			   "addresses, orders and checksums (sreplay replay finds them)");
	if (c->ambiguous_links)
		put_health(h, "doubt",
			   "%llu ends of queue pairs fit several peers; the likeliest is taken",
			   (ull)c->ambiguous_links);
	if (c->unmatched)
		put_health(h, "doubt", "%llu receives lack their send", (ull)c->unmatched);
	if (c->unexpected)
		put_health(h, "doubt", "%llu completions belong to no known request",
			   (ull)c->unexpected);
	if (c->weakened)
		put_health(h, "doubt", "of %llu orders only an older position was kept",
			   (ull)c->weakened);
	if (r->g->t.contradictions)
		put_health(h, "bad", "%llu arrows contradict each other",
			   (ull)r->g->t.contradictions);
}

/* ------------------------------------------------------------------- traffic */

static void put_traffic(struct sr_report *r)
{
	const struct sr_traffic *t = &r->g->traffic;
	bool any = false;

	fputs("\"traffic\":[", r->out);
	for (size_t from = 0; from < t->n; from++)
		for (size_t to = 0; to <= t->n; to++) {
			const struct sr_traffic_cell *cell = &t->cells[from * (t->n + 1) + to];
			uint64_t sum = 0;

			for (int k = 0; k < SR_OP_KINDS; k++)
				sum += cell->count[k];
			if (!sum)
				continue;
			fprintf(r->out, "%s{\"from\":%zu,\"to\":%zu", any ? "," : "", from, to);
			for (int k = 0; k < SR_OP_KINDS; k++)
				fprintf(r->out, ",\"%s\":[%" PRIu64 ",%" PRIu64 "]",
					sr_traffic_names[k], cell->count[k], cell->bytes[k]);
			putc('}', r->out);
			any = true;
		}
	fputs("],\n", r->out);
}

/* The producer of a value without a replay's findings: ranks_n: outside, or not known. */
static size_t producer_of(const struct sr_gathered *g, const struct sr_explained *k)
{
	bool is_certain;
	size_t rank;

	if (!k->v.is_message && sr_explained_writer(k, g->t.ranks_n, &rank, &is_certain))
		return rank;
	/* What was fetched and nobody wrote: the CPU of the memory's owner. */
	return k->v.is_exposed || k->v.from == SR_NO_RANK ? g->t.ranks_n : k->v.from;
}

static size_t rank_of_number(const struct sr_gathered *g, int32_t number)
{
	size_t i = 0;

	while (i < g->t.ranks_n && g->t.links.ranks[i].number != number)
		i++;
	return i;
}

/* [from][to]: values and bytes. */
static int put_producers(struct sr_report *r)
{
	const struct sr_gathered *g = r->g;
	size_t n = g->t.ranks_n;
	uint64_t(*sums)[2] = calloc((n + 1) * (n + 1), sizeof(*sums));
	bool any = false;

	if (!sums)
		return -ENOMEM;
	for (size_t to = 0; g->is_replayed && to < n; to++)
		for (size_t i = 0; i < g->found_n[to]; i++) {
			size_t from = rank_of_number(g, g->found[to][i].producer);

			sums[from * (n + 1) + to][0]++;
			sums[from * (n + 1) + to][1] += g->found[to][i].length;
		}
	for (size_t i = 0; !g->is_replayed && i < g->explained.values_n; i++) {
		const struct sr_explained *k = &g->explained.values[i];
		size_t from = producer_of(g, k);

		sums[from * (n + 1) + k->v.rank][0]++;
		sums[from * (n + 1) + k->v.rank][1] += k->v.length;
	}
	fputs("\"producers\":[", r->out);
	for (size_t i = 0; i < (n + 1) * (n + 1); i++) {
		if (!sums[i][0])
			continue;
		fprintf(r->out, "%s[%zu,%zu,%" PRIu64 ",%" PRIu64 "]", any ? "," : "", i / (n + 1),
			i % (n + 1), sums[i][0], sums[i][1]);
		any = true;
	}
	fputs("],\n", r->out);
	free(sums);
	return 0;
}

/* -------------------------------------------------------------------- values */

static const char *call_words(void *argument, int32_t number, uint32_t thread, uint64_t sn)
{
	static char text[512];
	const struct sr_gathered *g = argument;
	size_t rank = rank_of_number(g, number);
	struct sr_place p;
	const struct sr_slice *s;
	const char *site;

	if (rank == g->t.ranks_n || !sr_timeline_find(&g->t, rank, thread, sn, &p))
		return "";
	s = sr_timeline_slice(&g->t, p);
	if (sn > s->sn + (s->count - 1) * s->stride)
		return "";
	site = sr_names_site(&g->names, rank, s->site);
	snprintf(text, sizeof(text), "%s%s%s", sr_names_call(&g->names, rank, s->kind),
		 *site ? " at " : "", site);
	return text;
}

static const char *address_words(void *argument, int32_t number, uint64_t address)
{
	const struct sr_gathered *g = argument;

	return sr_names_site(&g->names, rank_of_number(g, number), address);
}

static void put_text(struct sr_report *r, const struct sr_explained *k)
{
	const struct sr_gathered *g = r->g;
	char *text = NULL;
	size_t size;
	struct sr_explained_words words = {.out = open_memstream(&text, &size),
					   .links = &g->explained.links,
					   .rank = g->t.links.ranks[k->v.rank].number,
					   .found = g->found[k->v.rank],
					   .found_n = g->found_n[k->v.rank],
					   .call = call_words,
					   .address = address_words,
					   .argument = (void *)g};

	if (!words.out) {
		r->strings.failed = 1;
		return;
	}
	sr_explained_print_call(&words, words.rank, k->v.at.thread, k->v.at.sn);
	putc('\n', words.out);
	sr_explained_print(&words, k);
	if (fclose(words.out))
		r->strings.failed = 1;
	if (text && size > TEXT_MOST)
		text[TEXT_MOST] = '\0';
	sr_json_text(r->out, text ? text : "");
	free(text);
}

static void put_values(struct sr_report *r)
{
	const struct sr_gathered *g = r->g;
	bool any = false;

	fprintf(r->out, "\"valuesTotal\":%zu,\"values\":[", g->values_n);
	for (size_t i = 0; i < g->explained.values_n; i++) {
		const struct sr_explained *k = &g->explained.values[i];
		struct sr_place p;

		if (!sr_timeline_find(&g->t, k->v.rank, k->v.at.thread, k->v.at.sn, &p))
			continue;
		fprintf(r->out, "%s\n[%u,%zu,%" PRIu64 ",%u,\"0x%" PRIx64 "\",%u,%d,%zu,",
			any ? "," : "", p.track, p.slice / r->chunk, k->v.at.sn, k->v.at.fault,
			k->v.address, k->v.length,
			k->v.is_exposed   ? SR_VALUE_EXPOSED
			: k->v.is_message ? SR_VALUE_MESSAGE
					  : SR_VALUE_FETCHED,
			producer_of(g, k));
		put_text(r, k);
		putc(']', r->out);
		any = true;
	}
	fputs("],\n", r->out);
}

/* --------------------------------------------------------------------- costs */

static void put_classes(struct sr_report *r)
{
	static const char *const names[SR_VALUE_CLASSES] = {
	    "messages received", "fetched by READs and atomics", "found in exposed memory"};
	uint64_t sums[SR_VALUE_CLASSES][2] = {0};

	for (size_t i = 0; i < r->g->values_n; i++) {
		sums[r->g->values[i].class][0]++;
		sums[r->g->values[i].class][1] += r->g->values[i].length;
	}
	fputs("\"entered\":[", r->out);
	for (int i = 0; i < SR_VALUE_CLASSES; i++)
		fprintf(r->out, "%s[\"%s\",%" PRIu64 ",%" PRIu64 "]", i ? "," : "", names[i],
			sums[i][0], sums[i][1]);
	fputs("],\n", r->out);
}

/* What the trace consists of. */
static void put_records(struct sr_report *r)
{
	uint64_t calls = 0, all = 0, exposed = 0, clocks = 0, heap = 0;

	for (size_t i = 0; i < r->g->t.ranks_n; i++) {
		const struct sr_seen_rank *seen = &r->g->ranks[i];

		all += seen->bytes;
		exposed += seen->other_bytes[SR_REC_EXPOSED] + seen->other_bytes[SR_REC_REGION] +
			   seen->other_bytes[SR_REC_EXPOSED_COUNTS];
		clocks += seen->other_bytes[SR_REC_CLOCK] + seen->other_bytes[SR_REC_CONNECTION];
		heap += seen->other_bytes[SR_REC_HEAP];
	}
	for (size_t i = 0; i < r->g->t.tracks_n; i++)
		for (size_t s = 0; s < r->g->t.tracks[i].n; s++)
			calls += r->g->t.tracks[i].slices[s].bytes;
	fprintf(r->out,
		"\"records\":[[\"calls\",%" PRIu64 "],[\"values in exposed memory\",%" PRIu64
		"],[\"clocks\",%" PRIu64 "],[\"order of the heap\",%" PRIu64
		"],[\"others\",%" PRIu64 "]],\n",
		calls, exposed, clocks, heap, all - calls - exposed - clocks - heap);
}

static void put_sites(struct sr_report *r, const char *name, bool loads)
{
	size_t n = 0;

	fprintf(r->out, "\"%s\":[", name);
	for (size_t i = 0; i < r->g->sites_n && n < SITES; i++) {
		const struct sr_seen_site *s = &r->g->sites[i];
		const char *what = s->kind ? sr_names_call(&r->g->names, s->rank, s->kind) : "load";
		char text[64];
		const char *place;

		if (loads == (s->kind != 0))
			continue;
		place = sr_names_site(&r->g->names, s->rank, s->address);
		snprintf(text, sizeof(text), "0x%" PRIx64, sr_site_address(s->address));
		fprintf(r->out, "%s[%zu,%zu,%zu,%" PRIu64 ",%" PRIu64 "]", n++ ? "," : "", s->rank,
			sr_strings_number(&r->strings, what),
			sr_strings_number(&r->strings, *place ? place : text), s->calls, s->bytes);
	}
	fputs("],\n", r->out);
}

/* Each kind of call: how often, and the bytes of its records.  sites has them all. */
static int put_calls(struct sr_report *r)
{
	uint64_t(*sums)[2] = NULL;
	size_t room = 0;
	bool any = false;

	for (size_t i = 0; i < r->g->sites_n; i++) {
		const struct sr_seen_site *s = &r->g->sites[i];
		size_t number =
		    s->kind ? sr_strings_number(&r->strings,
						sr_names_call(&r->g->names, s->rank, s->kind))
			    : 0;

		if (!s->kind)
			continue;
		if (number >= room) {
			uint64_t(*more)[2] = realloc(sums, (number + 64) * sizeof(*sums));

			if (!more)
				break;
			sums = more;
			memset(sums + room, 0, (number + 64 - room) * sizeof(*sums));
			room = number + 64;
		}
		sums[number][0] += s->calls;
		sums[number][1] += s->bytes;
	}
	fputs("\"kinds\":[", r->out);
	for (size_t i = 0; i < room; i++) {
		if (!sums[i][0])
			continue;
		fprintf(r->out, "%s[%zu,%" PRIu64 ",%" PRIu64 "]", any ? "," : "", i, sums[i][0],
			sums[i][1]);
		any = true;
	}
	fputs("],\n", r->out);
	free(sums);
	return 0;
}

int sr_report_facts(struct sr_report *r)
{
	struct health h = {r->out, false};
	int err;

	fputs("\"ranks\":[", r->out);
	for (size_t i = 0; i < r->g->t.ranks_n; i++)
		put_rank(r, i);
	fputs("],\n\"health\":[", r->out);
	put_ends(r, &h);
	put_compared(r, &h);
	put_exactness(r, &h);
	fprintf(r->out, "],\n\"replayed\":%s,", r->g->is_replayed ? "true" : "false");
	put_traffic(r);
	err = put_producers(r);
	put_values(r);
	put_classes(r);
	put_records(r);
	put_sites(r, "sites", false);
	put_sites(r, "loads", true);
	return err ? err : put_calls(r);
}
