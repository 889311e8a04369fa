/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_graph.c: `sreplay graph`: which ranks communicated with each other. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/analysis/graph.h"
#include "replay/analysis/log/children.h"
#include "replay/analysis/plan_make.h"

struct options {
	struct sr_trace_options common;
	void (*print)(const struct sr_graph *g, FILE *out);
};

static const struct argp_option option_list[] = {
    {"format", 'f', "text|dot|svg|json", 0, "lines (the default), for Graphviz, a picture, or JSON", 0},
    {"json", 'j', NULL, 0, "the same as --format json", 0},
    {"output", 'o', "FILE", 0,
     "there, not on standard output; NAME.dot, NAME.svg and NAME.json tell the format", 0},
    {0},
};

static const struct {
	const char *name;
	void (*print)(const struct sr_graph *g, FILE *out);
} formats[] = {
    {"text", sr_graph_print_text},
    {"dot", sr_graph_print_dot},
    {"svg", sr_graph_print_svg},
    {"json", sr_graph_print_json},
};

#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static bool choose(struct options *o, const char *name)
{
	for (size_t i = 0; name && i < FORMATS; i++)
		if (!strcmp(name, formats[i].name)) {
			o->print = formats[i].print;
			return true;
		}
	return false;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	const char *dot;

	switch (key) {
	case 'f':
		if (!choose(o, arg))
			argp_error(state, "--format %s: expected text, dot, svg or json", arg);
		return 0;
	case 'j':
		choose(o, "json");
		return 0;
	case ARGP_KEY_SUCCESS:
		dot = o->common.out ? strrchr(o->common.out, '.') : NULL;
		if (!o->print && !choose(o, dot ? dot + 1 : NULL))
			o->print = sr_graph_print_text;
		return 0;
	default:
		return sr_parse_trace_options(key, arg, state, &o->common);
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec",
    "Say who communicated with whom: requests, counts and bytes, between the ranks of the plan and "
    "the outside; after a replay of several ranks also which values came from whom.",
    NULL,
    NULL,
    NULL,
};

static int open_plan(struct sr_plan **p, struct sr_trace *t, struct sr_error *err)
{
	struct sr_process_counts counts;
	int ret = sr_plan_open(p, t, err);

	if (ret != -ENOENT && ret != -ESTALE)
		return ret;
	ret = sr_plan_make(t, NULL, 0, NULL, &counts, err);
	return ret ? ret : sr_plan_open(p, t, err);
}

static int print(const struct options *o, const struct sr_graph *g)
{
	FILE *out = sr_output_open(o->common.out);

	if (!out)
		return SR_EXIT_FAILED;
	o->print(g, out);
	return sr_output_close(out, o->common.out, 0);
}

int sr_cmd_graph(int argc, char **argv)
{
	struct options o = {0};
	struct sr_plan *p = NULL;
	struct sr_trace *t;
	struct sr_graph g;
	struct sr_error err;
	int status;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	if (sr_trace_open(&t, o.common.dir, &err))
		return sr_fail("%s", err.text);
	sr_note_what_sums_lack(t, o.common.dir);
	if (sr_children_adopt(t, &err) || open_plan(&p, t, &err) || sr_graph_load(&g, t, p, &err)) {
		status = sr_fail("%s", err.text);
	} else {
		status = sr_graph_add_images(&g, t, &err) ? sr_fail("%s", err.text) : print(&o, &g);
		sr_graph_free(&g);
	}
	sr_plan_close(p);
	sr_trace_close(t);
	return status;
}
