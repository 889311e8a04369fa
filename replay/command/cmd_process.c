/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_process.c: `sreplay process`: a plan for the replay of a group. */
#include <argp.h>

#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/host/group/make_plan.h"

static const struct argp_option option_list[] = {
    {"group", 'g', "LIST", 0, "for the replay of these ranks (0,2-5); all, if not given", 0},
    {"quiet", 'q', NULL, 0, "no progress bar, and only what is in doubt", 0},
    SR_JSON_OPTION,
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
    "Find out what a replay of a group of ranks has to know besides their traces: which call "
    "follows which of another rank, and whose writes may have produced which value. Goes "
    "into DIR.srec/plan; made again, it is the same byte for byte.",
    NULL,
    NULL,
    NULL,
};

int sr_cmd_process(int argc, char **argv)
{
	struct sr_trace_options o = {0};
	struct sr_make_plan_options plan;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	plan = (struct sr_make_plan_options){.dir = o.dir, .list = o.group, .quiet = o.quiet, .json = o.json};
	return sr_make_plan(&plan);
}
