/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_explain.c: `sreplay explain`: prints the values that entered at a call, and where each
 * came from.  If a replay has compared the bytes, its report decides; the traces alone have
 * only addresses, orders and checksums (analysis/explain.h).
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/command/command.h"
#include "replay/command/explain_entered.h"
#include "replay/command/guess.h"
#include "replay/command/traces.h"
#include "replay/analysis/explain.h"
#include "replay/analysis/log/children.h"
#include "replay/analysis/log/images.h"
#include "replay/analysis/plan/plan.h"
#include "replay/analysis/log/call_sites.h"
#include "replay/print/explained_json.h"
#include "replay/print/json.h"

#define VALUES 256 /* of one call, at most */

struct options {
	const char *dir;
	char name[64]; /* the rank's */
	int32_t rank;
	uint32_t thread;
	uint64_t sn;
	bool has_place;
	bool json;
};

struct explain {
	struct options o;
	struct sr_explanation e;
	struct sr_call_sites *sites;
	struct sr_explained_words words;
};

/* ----------------------------------------------------------------- options */

/* RANK:SN or RANK.THREAD:SN; a rank is 3, or a child of one, 3/1 */
static bool parse_place(const char *text, struct options *o)
{
	size_t n = strspn(text, "0123456789/");
	char *end = (char *)text + n;
	unsigned long thread = 0;

	if (!n || n >= sizeof(o->name))
		return false;
	snprintf(o->name, sizeof(o->name), "%.*s", (int)n, text);
	if (*end == '.') {
		text = end + 1;
		thread = strtoul(text, &end, 10);
		if (end == text || thread > UINT32_MAX)
			return false;
	}
	if (*end != ':')
		return false;
	text = end + 1;
	o->sn = strtoull(text, &end, 10);
	o->thread = (uint32_t)thread;
	return end != text && !*end && o->sn;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (!o->dir && access(arg, F_OK) && !o->has_place && parse_place(arg, o))
			o->has_place = true; /* of the newest trace */
		else if (!o->dir)
			o->dir = sr_traces_find(arg);
		else if (o->has_place)
			argp_usage(state);
		else if (parse_place(arg, o))
			o->has_place = true;
		else
			argp_error(state, "%s: expected RANK:SN or RANK.THREAD:SN", arg);
		return 0;
	case ARGP_KEY_END:
		if (!o->has_place)
			argp_error(state, "of which call? RANK:SN or RANK.THREAD:SN, such as 0:41");
		o->dir = o->dir ? o->dir : sr_traces_find(NULL);
		return o->dir ? 0 : EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option option_list[] = {
    SR_JSON_OPTION,
    {0},
};

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec RANK[.THREAD]:SN",
    "Say of each value that entered a process at this call which rank of the recorded ones wrote "
    "it, where in its program, and what else was written there.",
    NULL,
    NULL,
    NULL,
};

static const char *call_words(void *sites, int32_t rank, uint32_t thread, uint64_t sn)
{
	return sr_call_sites_call(sites, rank, thread, sn);
}

static const char *address_words(void *sites, int32_t rank, uint64_t return_address)
{
	return sr_call_sites_address(sites, rank, return_address);
}

static void print_json(const struct explain *x)
{
	json_t *line = sr_explained_call_json(&x->words, x->o.rank, x->o.thread, x->o.sn);
	json_t *values = json_array(), *entered = json_null();

	for (size_t i = 0; i < x->e.values_n; i++)
		json_array_append_new(values, sr_explained_json(&x->words, &x->e.values[i]));
	if (!x->e.values_n)
		sr_explain_entered(x->e.trace, x->o.rank, x->o.thread, x->o.sn, &entered);
	json_object_set_new(line, "image", json_integer(sr_trace_image(x->e.trace, x->o.rank)));
	json_object_set_new(line, "values", values);
	json_object_set_new(line, "more_values", json_boolean(x->e.too_many));
	json_object_set_new(line, "left_out", json_integer((json_int_t)x->e.left_out));
	json_object_set_new(line, "entered", entered);
	sr_json_print(line);
}

static void print_text(const struct explain *x)
{
	sr_explained_print_call(&x->words, x->o.rank, x->o.thread, x->o.sn);
	putchar('\n');
	if (x->e.left_out)
		printf("  %zu value%s that other ranks sent, and that the trace leaves out (record --order): sreplay "
		       "replay --record-ranks %s makes one that has them\n",
		       x->e.left_out, x->e.left_out == 1 ? "" : "s", x->o.name);
	if (!x->e.values_n && !x->e.left_out &&
	    !sr_explain_entered(x->e.trace, x->o.rank, x->o.thread, x->o.sn, NULL))
		printf("  no value from the network entered here\n");
	for (size_t i = 0; i < x->e.values_n; i++)
		sr_explained_print(&x->words, &x->e.values[i]);
	if (x->e.too_many)
		printf("  and more: only the first %d are shown\n", VALUES);
}

/* The exit status. */
static int print_all(const struct explain *x)
{
	const char *call = sr_call_sites_call(x->sites, x->o.rank, x->o.thread, x->o.sn);

	if (!*call && !x->e.values_n && !x->e.left_out)
		return sr_fail("rank %s thread %u has no record of SN %" PRIu64
			       " (an idle poll that came again is recorded once)",
			       x->o.name, x->o.thread, x->o.sn);
	if (x->o.json)
		print_json(x);
	else
		print_text(x);
	return 0;
}

/* ----------------------------------------------------------------------- all */

static void load_found(struct explain *x, struct sr_plan *plan)
{
	const void *records;
	struct sr_error err;

	if (sr_plan_records(plan, SR_PLAN_FOUND, x->o.rank, 0, &records, &x->words.found_n, &err))
		sr_note("%s", err.text);
	x->words.found = records;
}

/* Replays of several ranks compare what the last image got. */
static bool is_last_image(const struct explain *x)
{
	return sr_trace_image(x->e.trace, x->o.rank) + 1 == sr_trace_images(x->e.trace, x->o.rank);
}

static int explain(struct explain *x)
{
	struct sr_explained_call call = {.thread = x->o.thread, .sn = x->o.sn};
	struct sr_plan *plan = NULL;
	struct sr_error err = {""};
	int status = 0;

	while (sr_trace_rank_number(x->e.trace, call.rank) != x->o.rank)
		call.rank++;
	x->e.calls = &call;
	x->e.calls_n = 1;
	x->e.most = VALUES;
	if (sr_explain(&x->e, &err))
		return sr_fail("%s", err.text);
	x->sites = sr_call_sites_new(x->e.trace);
	x->words = (struct sr_explained_words){.out = stdout,
					       .links = &x->e.links,
					       .rank = x->o.rank,
					       .call = call_words,
					       .address = address_words,
					       .argument = x->sites};
	/* Without a plan there was no replay that could have compared anything. */
	if (is_last_image(x) && !sr_plan_open(&plan, x->e.trace, &err))
		load_found(x, plan);
	if (!x->sites)
		status = sr_fail("no memory left");
	else
		status = print_all(x);
	sr_call_sites_free(x->sites);
	sr_plan_close(plan);
	return status;
}

/* False: the trace has no such rank, nor child that belongs to the job. */
static bool find_rank(struct explain *x)
{
	for (size_t i = 0; i < sr_trace_ranks(x->e.trace); i++) {
		x->o.rank = sr_trace_rank_number(x->e.trace, i);
		if (!strcmp(sr_trace_rank_name(x->e.trace, x->o.rank), x->o.name))
			return true;
	}
	return false;
}

int sr_cmd_explain(int argc, char **argv)
{
	struct explain *x = calloc(1, sizeof(*x));
	struct sr_error err;
	int status;

	if (!x)
		return sr_fail("no memory left");
	if (sr_argp_parse(&argp, argc, argv, 0, &x->o)) {
		free(x);
		return SR_EXIT_FAILED;
	}
	if (sr_trace_open(&x->e.trace, x->o.dir, &err) || sr_children_adopt(x->e.trace, &err))
		status = sr_fail("%s", err.text);
	else if (!find_rank(x))
		status = sr_fail("%s has no rank %s", x->o.dir, x->o.name);
	else if (sr_images_choose_by_sn(x->e.trace, x->o.rank, x->o.sn, &err))
		status = sr_fail("%s", err.text);
	else
		status = explain(x);
	sr_explain_free(&x->e);
	sr_trace_close(x->e.trace);
	free(x);
	return status;
}
