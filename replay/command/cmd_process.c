/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_process.c: `sreplay process`: a plan for the replay of a group. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "replay/command/command.h"
#include "replay/host/group/choose.h"
#include "replay/analysis/plan_make.h"

struct options {
	const char *dir;
	const char *group;
	bool quiet;
};

static const struct argp_option option_list[] = {
    {"group", 'g', "LIST", 0, "for the replay of these ranks (0,2-5); all, if not given", 0},
    {"quiet", 'q', NULL, 0, "no progress bar, and only what is in doubt", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'g':
		o->group = arg;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	default:
		return sr_parse_trace(key, arg, state, &o->dir);
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec",
    "Find out what a replay of a group of ranks has to know besides their traces: which call "
    "comes behind which of another rank, and whose writes may have produced which value. Goes "
    "into DIR.srec/plan; made again, it is the same byte for byte.",
    NULL,
    NULL,
    NULL,
};

#define BAR 40

/* One line, drawn again where it changes. */
static void draw(double done)
{
	static int last = -1;
	int percent = (int)(100 * done), cells = (int)(BAR * done);

	if (percent == last)
		return;
	last = percent;
	fprintf(stderr, "\rsreplay: processing [%.*s%.*s] %3d %%", cells,
		"########################################", BAR - cells,
		"                                        ", percent);
}

static void erase(void)
{
	fprintf(stderr, "\r%*s\r", BAR + 32, "");
}

static void say_doubts(const struct sr_process_counts *c)
{
	typedef unsigned long long ull;

	if (c->ambiguous_links)
		sr_note("%llu connections could be to one of several queue pairs: the likeliest "
			"was taken, and what follows from it is marked",
			(ull)c->ambiguous_links);
	if (c->unmatched)
		sr_note("%llu receives from recorded ranks have no send in the trace",
			(ull)c->unmatched);
	if (c->unexpected)
		sr_note("%llu completions are of no request in the trace", (ull)c->unexpected);
	if (c->weakened)
		sr_note("%llu orders go far back, and are kept somewhat weaker than found",
			(ull)c->weakened);
	if (c->holes)
		sr_note("the trace lacks %llu calls: what is around them is not certain",
			(ull)c->holes);
}

int sr_cmd_process(int argc, char **argv)
{
	struct options o = {0};
	struct sr_process_counts counts;
	struct sr_trace *t;
	struct sr_error err;
	int32_t *group;
	size_t n;
	bool bar;
	int ret;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return SR_EXIT_FAILED;
	bar = !o.quiet && isatty(STDERR_FILENO);
	if (sr_trace_open(&t, o.dir, &err))
		return sr_fail("%s", err.text);
	n = sr_ranks_choose(t, o.dir, o.group, &group);
	if (!n) {
		sr_trace_close(t);
		return SR_EXIT_FAILED;
	}
	ret = sr_plan_make(t, group, n, bar ? draw : NULL, &counts, &err);
	sr_trace_close(t);
	free(group);
	if (bar)
		erase();
	if (ret) {
		sr_fail("%s", err.text);
		return ret == -ELOOP ? 1 : SR_EXIT_FAILED;
	}
	say_doubts(&counts);
	if (!o.quiet)
		printf("%s: %llu records, %llu values (%llu bytes), %llu orders, %llu messages\n",
		       o.dir, (unsigned long long)counts.records, (unsigned long long)counts.values,
		       (unsigned long long)counts.bytes, (unsigned long long)counts.orders,
		       (unsigned long long)counts.messages);
	return 0;
}
