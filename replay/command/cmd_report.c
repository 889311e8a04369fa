/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_report.c: `sreplay report`: a run as one HTML page. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/analysis/log/sizes.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/print/progress.h"
#include "replay/report/report.h"

static const struct argp_option option_list[] = {
    {"output", 'o', "FILE.html", 0,
     "there (default: NAME.html for NAME.srec; - is standard output)", 0},
    {"quiet", 'q', NULL, 0, "no progress bar, and nothing at the end", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	return sr_parse_trace_options(key, arg, state, state->input);
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec",
    "Show a run as one page for a browser: its health, a timeline of ranks and threads with calls "
    "and "
    "arrows, the traffic between ranks, values and their producers, and costs. The page needs no "
    "network.",
    NULL,
    NULL,
    NULL,
};

/* The trace's name without its folders and ending, and with `ending`; NULL: no memory. */
static char *name_of(const char *dir, const char *ending)
{
	size_t n = strlen(dir), begin;
	char *name;

	while (n > 1 && dir[n - 1] == '/')
		n--;
	for (begin = n; begin && dir[begin - 1] != '/'; begin--)
		;
	if (n - begin > 5 && !strncmp(dir + n - 5, ".srec", 5))
		n -= 5;
	if (asprintf(&name, "%.*s%s", (int)(n - begin), dir + begin, ending) < 0)
		return NULL;
	return name;
}

static int write_page(const struct sr_gathered *g, const char *dir, const char *path, bool quiet)
{
	const char *file = strcmp(path, "-") ? path : NULL;
	char *name = name_of(dir, "");
	FILE *out = name ? sr_output_open(file) : NULL;
	struct sr_error err;
	int status = SR_EXIT_FAILED;

	if (!name)
		return sr_fail("no memory left");
	if (out) {
		status = sr_report_write(g, name, out, &err) ? sr_fail("%s", err.text) : 0;
		status = sr_output_close(out, file, status);
	}
	if (!status && file && !quiet)
		sr_note("%s shows %zu rank%s and %llu records of calls: open it in a browser", path,
			g->t.ranks_n, g->t.ranks_n == 1 ? "" : "s", (unsigned long long)g->t.slices_n);
	free(name);
	return status;
}

static int gather(struct sr_gathered *g, struct sr_trace *t, bool quiet, struct sr_error *err)
{
	int ret = sr_gather(g, t, sr_progress_begin("reading", sr_stream_bytes(t, -1), quiet), err);

	sr_progress_end();
	return ret;
}

int sr_cmd_report(int argc, char **argv)
{
	struct sr_trace_options o = {0};
	struct sr_gathered g;
	struct sr_trace *t;
	struct sr_error err;
	char *path;
	int status;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	if (sr_trace_open(&t, o.dir, &err))
		return sr_fail("%s", err.text);
	sr_note_what_sums_lack(t, o.dir);
	path = o.out ? strdup(o.out) : name_of(o.dir, ".html");
	if (!path)
		status = sr_fail("no memory left");
	else if (gather(&g, t, o.quiet, &err))
		status = sr_fail("%s", err.text);
	else
		status = write_page(&g, o.dir, path, o.quiet);
	if (path)
		sr_gather_free(&g);
	free(path);
	sr_trace_close(t);
	return status;
}
