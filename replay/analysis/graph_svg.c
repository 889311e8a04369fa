/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * graph_svg.c: the graph as a picture.
 *
 * The ranks are on a circle, the outside is in its middle.  The width of an arrow grows with the
 * logarithm of its bytes; the pointer over it shows the numbers.
 */
#include <inttypes.h>
#include <math.h>

#include "replay/analysis/graph.h"

#define NODE 26.0 /* radius */

struct point {
	double x, y;
};

static double circle_of(const struct sr_graph *g)
{
	double around = (double)g->n * 4 * NODE / (2 * M_PI);

	return around < 140 ? 140 : around;
}

static struct point place_of(const struct sr_graph *g, size_t i)
{
	double r = circle_of(g), middle = r + 3 * NODE;
	double angle = 2 * M_PI * (double)i / (double)g->n - M_PI / 2;

	if (i == g->n)
		return (struct point){middle, middle};
	return (struct point){middle + r * cos(angle), middle + r * sin(angle)};
}

static double width_of(const struct sr_graph_edge *e)
{
	double bytes = (double)(sr_graph_edge_bytes(e) + e->value_bytes);

	return 1 + log2(1 + bytes) / 5;
}

static void print_title(const struct sr_graph_edge *e, FILE *out)
{
	char words[256];

	sr_graph_edge_words(e, words, sizeof(words));
	fprintf(out, "<title>%s", words);
	if (e->values)
		fprintf(out, "%sproduced %" PRIu64 " values (%" PRIu64 " bytes)",
			*words ? "; " : "", e->values, e->value_bytes);
	fprintf(out, "</title>");
}

/* A rank's requests to itself are a loop outside the circle. */
static void print_loop(const struct sr_graph *g, size_t i, const struct sr_graph_edge *e, FILE *out)
{
	struct point p = place_of(g, i), middle = place_of(g, g->n);
	double dx = p.x - middle.x, dy = p.y - middle.y, length = hypot(dx, dy);

	if (length < 1) {
		dx = 0;
		dy = length = 1;
	}
	dx *= 1.8 * NODE / length;
	dy *= 1.8 * NODE / length;
	fprintf(out,
		"<circle class=\"e\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" stroke-width=\"%.1f\">",
		p.x + dx * 0.7, p.y + dy * 0.7, NODE * 0.6, width_of(e));
	print_title(e, out);
	fprintf(out, "</circle>\n");
}

static void print_arrow(const struct sr_graph *g, size_t from, size_t to,
			const struct sr_graph_edge *e, FILE *out)
{
	struct point a = place_of(g, from), b = place_of(g, to);
	double dx = b.x - a.x, dy = b.y - a.y, length = hypot(dx, dy);
	double ux = dx / length, uy = dy / length, side = 5;
	struct point begin = {a.x + ux * NODE - uy * side, a.y + uy * NODE + ux * side};
	struct point end = {b.x - ux * (NODE + 6) - uy * side, b.y - uy * (NODE + 6) + ux * side};

	fprintf(out,
		"<path class=\"e\" d=\"M%.1f %.1fL%.1f %.1f\" stroke-width=\"%.1f\" "
		"marker-end=\"url(#to)\">",
		begin.x, begin.y, end.x, end.y, width_of(e));
	print_title(e, out);
	fprintf(out, "</path>\n");
}

static void print_node(const struct sr_graph *g, size_t i, FILE *out)
{
	struct point p = place_of(g, i);

	fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>",
		i < g->n ? "n" : "n o", p.x, p.y, NODE);
	if (i < g->n)
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", p.x, p.y + 5,
			sr_trace_rank_name(g->trace, g->ranks[i]));
	else
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">outside</text>\n", p.x, p.y + 5);
}

void sr_graph_print_svg(const struct sr_graph *g, FILE *out)
{
	double size = 2 * (circle_of(g) + 3 * NODE);

	fprintf(
	    out,
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
	    "height=\"%.0f\">\n"
	    "<style>.e{stroke:#36c;fill:none}.e:hover{stroke:#c33}.n{fill:#eef;stroke:#225}"
	    ".o{fill:#eee;stroke:#999;stroke-dasharray:4 3}"
	    "text{font:12px sans-serif;text-anchor:middle}</style>\n"
	    "<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"4\" refY=\"4\" "
	    "markerUnits=\"userSpaceOnUse\" markerWidth=\"12\" markerHeight=\"12\" "
	    "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#36c\"/></marker></defs>\n",
	    size, size, size, size);
	for (size_t from = 0; from <= g->n; from++)
		for (size_t to = 0; to <= g->n; to++) {
			const struct sr_graph_edge *e = sr_graph_edge(g, from, to);

			if (sr_graph_edge_is_empty(e))
				continue;
			if (from == to)
				print_loop(g, from, e, out);
			else
				print_arrow(g, from, to, e, out);
		}
	for (size_t i = 0; i <= g->n; i++)
		print_node(g, i, out);
	fprintf(out, "</svg>\n");
}
