/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_export.c: `sreplay export`: a run in the format of another tool. */
#include <argp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "replay/analysis/log/sizes.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/export/export.h"
#include "replay/print/progress.h"

struct format {
	const char *name, *suffix;
	int (*write)(const struct sr_names *names, FILE *out);
};

static const struct format formats[] = {
    {"perfetto", ".perfetto-trace", sr_export_perfetto},
    {"json", ".json", sr_export_json},
    {"dot", ".dot", sr_export_dot},
};

#define FORMATS (sizeof(formats) / sizeof(formats[0]))

struct options {
	struct sr_trace_options common;
	const struct format *format;
};

static const struct argp_option option_list[] = {
    {"format", 'f', "perfetto|json|dot", 0,
     "Perfetto's messages (the default), Chrome's JSON, or a graph for Graphviz", 0},
    {"output", 'o', "FILE", 0,
     "there, not on standard output; NAME.perfetto-trace, NAME.json and NAME.dot tell the format",
     0},
    SR_QUIET_OPTION,
    {0},
};

static bool has_suffix(const char *text, const char *suffix)
{
	size_t n = strlen(text), m = strlen(suffix);

	return n > m && !strcmp(text + n - m, suffix);
}

static void choose(struct options *o)
{
	for (size_t i = 0; !o->format && o->common.out && i < FORMATS; i++)
		if (has_suffix(o->common.out, formats[i].suffix))
			o->format = &formats[i];
	if (!o->format)
		o->format = &formats[0];
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'f':
		for (size_t i = 0; i < FORMATS; i++)
			if (!strcmp(arg, formats[i].name))
				o->format = &formats[i];
		if (!o->format)
			argp_error(state, "--format %s: expected perfetto, json or dot", arg);
		return 0;
	case ARGP_KEY_SUCCESS:
		choose(o);
		return 0;
	default:
		return sr_parse_trace_options(key, arg, state, &o->common);
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec",
    "Write a run for ui.perfetto.dev, trace_processor, chrome://tracing or Graphviz: ranks and "
    "threads "
    "are tracks, calls are slices, messages and orders are arrows. Without "
    "stamps (record --stamps) a trace has no times: a call takes one microsecond, and begins after what "
    "it is known to follow.",
    NULL,
    NULL,
    NULL,
};

static int write_format(const struct options *o, const struct sr_names *names, FILE *out)
{
	int ret;

	sr_progress_begin("writing", 0, o->common.quiet);
	ret = o->format->write(names, out);
	sr_progress_end();
	return ret;
}

static int write_out(const struct options *o, const struct sr_timeline *t)
{
	struct sr_names names;
	struct sr_error err;
	FILE *out = NULL;
	int status = 0;

	if (sr_names_load(&names, t, &err))
		status = sr_fail("%s", err.text);
	else if (!(out = sr_output_open(o->common.out)))
		status = SR_EXIT_FAILED;
	else if (write_format(o, &names, out))
		status = sr_fail("no memory left");
	if (out)
		status = sr_output_close(out, o->common.out, status);
	if (!status && t->contradictions)
		sr_note("%llu arrows contradict each other and point backwards: a defect of sreplay, unless the trace is "
			"joined from several runs",
			(unsigned long long)t->contradictions);
	sr_names_free(&names);
	return status;
}

static void show(void *progress, double done)
{
	(*(sr_progress *)progress)(done);
}

static int load(struct sr_timeline *timeline, struct sr_trace *t, bool quiet, struct sr_error *err)
{
	sr_progress progress = sr_progress_begin("reading", sr_stream_bytes(t, -1), quiet);
	const struct sr_timeline_hooks hooks = {.progress = progress ? show : NULL, .argument = &progress};
	int ret = sr_timeline_load(timeline, t, &hooks, err);

	sr_progress_end();
	return ret;
}

int sr_cmd_export(int argc, char **argv)
{
	struct options o = {0};
	struct sr_timeline timeline;
	struct sr_trace *t;
	struct sr_error err;
	int status;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	if (!o.common.out && o.format == &formats[0] && isatty(STDOUT_FILENO))
		return sr_fail("Perfetto's messages are no text: give -o FILE, or --format=json");
	if (sr_trace_open(&t, o.common.dir, &err))
		return sr_fail("%s", err.text);
	sr_note_what_sums_lack(t, o.common.dir);
	if (load(&timeline, t, o.common.quiet, &err))
		status = sr_fail("%s", err.text);
	else
		status = write_out(&o, &timeline);
	sr_timeline_free(&timeline);
	sr_trace_close(t);
	return status;
}
