/* SPDX-License-Identifier: BSD-2-Clause */
/* dot.c: the calls that arrows begin or end at, for Graphviz: a column for each thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "replay/export/export.h"

/* Names of functions and files, in a quoted string of Graphviz's. */
static void put_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', out);
		if ((unsigned char)*text >= 0x20)
			putc(*text, out);
	}
}

static void put_node(const struct sr_names *names, struct sr_place p, FILE *out)
{
	const struct sr_track *k = &names->t->tracks[p.track];
	const struct sr_slice *s = &k->slices[p.slice];
	const char *site = sr_names_site(names, k->rank, s->site);

	fprintf(out, "\t\tn%u_%u [label=\"%" PRIu64 " ", p.track, p.slice, s->sn);
	put_text(out, sr_names_call(names, k->rank, s->kind));
	if (*site)
		fputs("\\n", out);
	put_text(out, site);
	fputs("\"];\n", out);
}

/* The thread's calls that are shown, one below the other. */
static void put_track(const struct sr_names *names, const bool *shown, uint32_t track, FILE *out)
{
	const struct sr_track *k = &names->t->tracks[track];
	size_t before = SIZE_MAX;

	fprintf(out, "\tsubgraph cluster_%u {\n\t\tlabel=\"rank %d thread %u\";\n", track,
		names->t->links.ranks[k->rank].number, k->thread);
	for (uint32_t s = 0; s < k->n; s++) {
		if (!shown[s])
			continue;
		put_node(names, (struct sr_place){track, s}, out);
		if (before != SIZE_MAX)
			fprintf(out, "\t\tn%u_%zu -> n%u_%u [style=dotted, arrowhead=none];\n",
				track, before, track, s);
		before = s;
	}
	fputs("\t}\n", out);
}

int sr_export_dot(const struct sr_names *names, FILE *out)
{
	const struct sr_timeline *t = names->t;
	bool **shown = calloc(t->tracks_n + 1, sizeof(*shown));
	int err = shown ? 0 : -ENOMEM;

	for (size_t i = 0; i < t->tracks_n && !err; i++) {
		shown[i] = calloc(t->tracks[i].n + 1, sizeof(bool));
		err = shown[i] ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < t->flows_n && !err; i++)
		if (sr_is_exported(&t->flows[i])) {
			shown[t->flows[i].from.track][t->flows[i].from.slice] = true;
			shown[t->flows[i].to.track][t->flows[i].to.slice] = true;
		}
	fputs("digraph sreplay {\n\tnode [shape=box, fontsize=10];\n", out);
	for (size_t i = 0; i < t->tracks_n && !err; i++)
		put_track(names, shown[i], (uint32_t)i, out);
	for (size_t i = 0; i < t->flows_n && !err; i++) {
		const struct sr_flow *f = &t->flows[i];

		if (sr_is_exported(f))
			fprintf(out, "\tn%u_%u -> n%u_%u [color=%s];\n", f->from.track,
				f->from.slice, f->to.track, f->to.slice,
				f->kind == SR_FLOW_MESSAGE ? "blue" : "gray");
	}
	fputs("}\n", out);
	for (size_t i = 0; shown && i < t->tracks_n; i++)
		free(shown[i]);
	free(shown);
	return err;
}
