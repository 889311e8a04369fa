/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/graph.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"

struct sr_graph_edge *sr_graph_edge(const struct sr_graph *g, size_t from, size_t to)
{
	return &g->edges[from * (g->n + 1) + to];
}

bool sr_graph_edge_is_empty(const struct sr_graph_edge *e)
{
	uint64_t any = e->values;

	for (int k = 0; k < SR_OP_KINDS; k++)
		any |= e->posted.count[k];
	return !any;
}

uint64_t sr_graph_edge_bytes(const struct sr_graph_edge *e)
{
	uint64_t bytes = 0;

	for (int k = 0; k < SR_OP_KINDS; k++)
		bytes += e->posted.bytes[k];
	return bytes;
}

/* Its place in the group; n: the outside. */
static size_t place_of(const struct sr_graph *g, int64_t rank)
{
	size_t i = 0;

	while (i < g->n && g->ranks[i] != rank)
		i++;
	return i;
}

static uint64_t number(const json_t *object, const char *kind, const char *suffix)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%s", kind, suffix);
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static void take_traffic(struct sr_graph *g, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *row = json_array_get(list, i), *to = json_object_get(row, "to");
		size_t from = place_of(g, json_integer_value(json_object_get(row, "from")));
		struct sr_graph_edge *e = sr_graph_edge(
		    g, from, json_is_integer(to) ? place_of(g, json_integer_value(to)) : g->n);

		for (int k = 0; k < SR_OP_KINDS; k++) {
			e->posted.count[k] += number(row, sr_traffic_names[k], "s");
			e->posted.bytes[k] += number(row, sr_traffic_names[k], "_bytes");
		}
	}
}

void sr_graph_add_traffic(struct sr_graph *g, const struct sr_traffic *t, const struct sr_links *links)
{
	json_t *list = sr_traffic_json(t, links);

	take_traffic(g, list);
	json_decref(list);
}

static int take_report(struct sr_graph *g, struct sr_plan *p, size_t rank, struct sr_error *err)
{
	const void *records;
	const struct sr_found_value *f;
	size_t n;
	int ret = sr_plan_records(p, SR_PLAN_FOUND, g->ranks[rank], 0, &records, &n, err);

	f = records;
	g->replayed |= n > 0;
	for (size_t i = 0; i < n; i++) {
		struct sr_graph_edge *e = sr_graph_edge(g, place_of(g, f[i].producer), rank);

		e->values++;
		e->value_bytes += f[i].length;
	}
	return ret;
}

int sr_graph_load(struct sr_graph *g, const struct sr_trace *t, struct sr_plan *p, struct sr_error *err)
{
	int ret = 0;

	*g = (struct sr_graph){.trace = t};
	g->ranks = sr_plan_group(p, &g->n);
	g->edges = calloc((g->n + 1) * (g->n + 1), sizeof(*g->edges));
	if (!g->edges)
		return sr_error_set(err, -ENOMEM, "no memory left");
	take_traffic(g, json_object_get(sr_plan_summary(p), "traffic"));
	for (size_t i = 0; i < g->n && !ret; i++)
		ret = take_report(g, p, i, err);
	if (ret)
		sr_graph_free(g);
	return ret;
}

void sr_graph_free(struct sr_graph *g)
{
	free(g->edges);
	g->edges = NULL;
}

void sr_graph_edge_words(const struct sr_graph_edge *e, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (int k = 0; k < SR_OP_KINDS && used < size; k++)
		if (e->posted.count[k])
			used += (size_t)snprintf(
			    text + used, size - used, "%s%" PRIu64 " %s%s (%" PRIu64 " bytes)",
			    used ? ", " : "", e->posted.count[k], sr_traffic_names[k],
			    e->posted.count[k] == 1 ? "" : "s", e->posted.bytes[k]);
}

static void print_name(const struct sr_graph *g, size_t i, FILE *out)
{
	if (i < g->n)
		fprintf(out, "rank %s", sr_trace_rank_name(g->trace, g->ranks[i]));
	else
		fprintf(out, "outside");
}

void sr_graph_print_text(const struct sr_graph *g, FILE *out)
{
	char words[256];
	bool any = false;

	for (size_t from = 0; from <= g->n; from++)
		for (size_t to = 0; to <= g->n; to++) {
			const struct sr_graph_edge *e = sr_graph_edge(g, from, to);

			if (sr_graph_edge_is_empty(e))
				continue;
			any = true;
			print_name(g, from, out);
			fprintf(out, " to ");
			print_name(g, to, out);
			sr_graph_edge_words(e, words, sizeof(words));
			fprintf(out, ": %s", words);
			if (e->values)
				fprintf(out, "%sproduced %" PRIu64 " values (%" PRIu64 " bytes)",
					*words ? "; " : "", e->values, e->value_bytes);
			fputc('\n', out);
		}
	if (!any)
		fprintf(out, "no rank has posted a request\n");
	if (!g->replayed)
		fprintf(out, "(what entered from whom: after a replay of these ranks)\n");
}

void sr_graph_print_dot(const struct sr_graph *g, FILE *out)
{
	char words[256];

	fprintf(out, "digraph sreplay {\n\tnode [shape=circle];\n");
	for (size_t i = 0; i < g->n; i++)
		fprintf(out, "\tn%zu [label=\"rank %s\"];\n", i, sr_trace_rank_name(g->trace, g->ranks[i]));
	fprintf(out, "\tn%zu [label=\"outside\", style=dashed];\n", g->n);
	for (size_t from = 0; from <= g->n; from++)
		for (size_t to = 0; to <= g->n; to++) {
			const struct sr_graph_edge *e = sr_graph_edge(g, from, to);

			if (sr_graph_edge_is_empty(e))
				continue;
			sr_graph_edge_words(e, words, sizeof(words));
			fprintf(out, "\tn%zu -> n%zu [label=\"%s", from, to, words);
			if (e->values)
				fprintf(out, "%s%" PRIu64 " values (%" PRIu64 " bytes)",
					*words ? "\\n" : "", e->values, e->value_bytes);
			fprintf(out, "\"];\n");
		}
	fprintf(out, "}\n");
}

/* A child has its name in place of a number. */
static json_t *place_json(const struct sr_graph *g, size_t i)
{
	if (i == g->n)
		return json_null();
	if (g->ranks[i] >= SR_FIRST_ADOPTED)
		return json_string(sr_trace_rank_name(g->trace, g->ranks[i]));
	return json_integer(g->ranks[i]);
}

static json_t *edge_json(const struct sr_graph *g, size_t from, size_t to)
{
	const struct sr_graph_edge *e = sr_graph_edge(g, from, to);
	json_t *v = json_pack("{s:o, s:o}", "from", place_json(g, from), "to", place_json(g, to));
	char name[32];

	for (int k = 0; k < SR_OP_KINDS; k++) {
		snprintf(name, sizeof(name), "%ss", sr_traffic_names[k]);
		json_object_set_new(v, name, json_integer((json_int_t)e->posted.count[k]));
		snprintf(name, sizeof(name), "%s_bytes", sr_traffic_names[k]);
		json_object_set_new(v, name, json_integer((json_int_t)e->posted.bytes[k]));
	}
	json_object_set_new(v, "values", json_integer((json_int_t)e->values));
	json_object_set_new(v, "value_bytes", json_integer((json_int_t)e->value_bytes));
	return v;
}

void sr_graph_print_json(const struct sr_graph *g, FILE *out)
{
	json_t *edges = json_array(), *all = json_object();

	for (size_t from = 0; from <= g->n; from++)
		for (size_t to = 0; to <= g->n; to++)
			if (!sr_graph_edge_is_empty(sr_graph_edge(g, from, to)))
				json_array_append_new(edges, edge_json(g, from, to));
	json_object_set_new(all, "replayed", json_boolean(g->replayed));
	json_object_set_new(all, "edges", edges);
	json_dumpf(all, out, JSON_COMPACT | JSON_ENSURE_ASCII);
	fputc('\n', out);
	json_decref(all);
}
