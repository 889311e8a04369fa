/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * graph.h: which ranks communicated with each other, from a plan and, after a replay, its
 * communication report.  `sreplay graph` prints it.
 */
#ifndef REPLAY_ANALYSIS_GRAPH_H
#define REPLAY_ANALYSIS_GRAPH_H

#include <stdint.h>
#include <stdio.h>

#include "replay/analysis/plan/plan.h"
#include "replay/analysis/traffic.h"

struct sr_graph_edge {
	struct sr_traffic_cell posted; /* requests, from the posting rank to the target's memory or queue */
	uint64_t values, value_bytes;  /* found by a replay: values that entered, from the rank that produced them */
};

struct sr_graph {
	const struct sr_trace *trace;
	size_t n;
	const int32_t *ranks;        /* of the group; the outside is n */
	struct sr_graph_edge *edges; /* [from][to], n + 1 each */
	bool replayed;               /* is there a report? */
};

/* From an open plan of the trace; both must outlive it.  0, or -errno and a sentence. */
int sr_graph_load(struct sr_graph *g, const struct sr_trace *t, struct sr_plan *p, struct sr_error *err);
void sr_graph_free(struct sr_graph *g);

/* Adds the requests of earlier images of ranks that executed several programs. */
int sr_graph_add_images(struct sr_graph *g, struct sr_trace *t, struct sr_error *err);
/* Adds requests between ranks of the trace. */
void sr_graph_add_traffic(struct sr_graph *g, const struct sr_traffic *t, const struct sr_links *links);

struct sr_graph_edge *sr_graph_edge(const struct sr_graph *g, size_t from, size_t to);
bool sr_graph_edge_is_empty(const struct sr_graph_edge *e);
uint64_t sr_graph_edge_bytes(const struct sr_graph_edge *e); /* of its requests */
/* "12 writes (96 bytes), 3 sends (48 bytes)"; "" if there are none. */
void sr_graph_edge_words(const struct sr_graph_edge *e, char *text, size_t size);

void sr_graph_print_text(const struct sr_graph *g, FILE *out);
void sr_graph_print_dot(const struct sr_graph *g, FILE *out);
void sr_graph_print_svg(const struct sr_graph *g, FILE *out);
void sr_graph_print_json(const struct sr_graph *g, FILE *out);

#endif
