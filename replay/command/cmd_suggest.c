/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_suggest.c: `sreplay suggest`: which ranks to record together. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "replay/analysis/suggest.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/command/traces.h"
#include "replay/print/json.h"

#define SHARES_MAX 16

struct options {
	const char *dir;
	long rank; /* -1: none */
	uint32_t thread;
	uint64_t sn; /* 0: all that entered the rank */
	double shares[SHARES_MAX];
	size_t shares_n;
	bool json;
};

static const struct argp_option option_list[] = {
    {"share", 's', "PERCENT", 0,
     "explain this share of the bytes (default: 50, 90 and 99); may be repeated", 0},
    SR_JSON_OPTION,
    {0},
};

/* RANK, RANK:SN or RANK.THREAD:SN */
static bool parse_place(const char *text, struct options *o)
{
	char *end;

	o->rank = strtol(text, &end, 10);
	if (end == text || o->rank < 0 || o->rank > INT32_MAX)
		return false;
	if (*end == '.') {
		text = end + 1;
		o->thread = (uint32_t)strtoul(text, &end, 10);
		if (end == text || *end != ':')
			return false;
	}
	if (!*end)
		return true;
	if (*end != ':')
		return false;
	text = end + 1;
	o->sn = strtoull(text, &end, 10);
	return end != text && !*end && o->sn;
}

static void add_share(struct options *o, const char *text, struct argp_state *state)
{
	char *end;
	double share = strtod(text, &end);

	if (end == text || (*end && strcmp(end, "%")) || !(share > 0 && share <= 100))
		argp_error(state, "--share %s: expected a percentage, more than 0 and up to 100",
			   text);
	else if (o->shares_n == SHARES_MAX)
		argp_error(state, "--share: %d at most", SHARES_MAX);
	else
		o->shares[o->shares_n++] = share / 100;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	static const double usual[] = {0.5, 0.9, 0.99};
	struct options *o = state->input;

	switch (key) {
	case 's':
		add_share(o, arg, state);
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (!o->dir && access(arg, F_OK) && o->rank < 0 && parse_place(arg, o))
			return 0; /* of the newest trace */
		else if (!o->dir)
			o->dir = sr_traces_find(arg);
		else if (o->rank >= 0)
			argp_usage(state);
		else if (!parse_place(arg, o))
			argp_error(state, "%s: expected RANK, RANK:SN or RANK.THREAD:SN", arg);
		return 0;
	case ARGP_KEY_END:
		o->dir = o->dir ? o->dir : sr_traces_find(NULL);
		if (!o->dir)
			return EINVAL;
		if (!o->shares_n)
			memcpy(o->shares, usual, sizeof(usual));
		o->shares_n = o->shares_n ? o->shares_n : 3;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec [RANK[[.THREAD]:SN]]",
    "Say which ranks to record together, so that a share of the bytes that entered a rank, or one "
    "of its "
    "calls, or any member of the group, was produced by a member. Record all ranks once, ask, and "
    "record "
    "only these from then on.",
    NULL,
    NULL,
    NULL,
};

/* ------------------------------------------------------------------ as text */

static int32_t number_of(const struct sr_attribution *a, size_t rank)
{
	return a->links.ranks[rank].number;
}

/* 0,2-5 */
static char *list_of(const struct sr_attribution *a, const bool *members)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	bool any = false;

	for (size_t i = 0; out && i < a->n; i++) {
		size_t last = i;

		if (!members[i])
			continue;
		while (last + 1 < a->n && members[last + 1] &&
		       number_of(a, last + 1) == number_of(a, last) + 1)
			last++;
		fprintf(out, any ? ",%d" : "%d", number_of(a, i));
		if (last > i)
			fprintf(out, last > i + 1 ? "-%d" : ",%d", number_of(a, last));
		any = true;
		i = last;
	}
	if (!out || fclose(out))
		return NULL;
	return text;
}

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

static void print_suggestion(const struct sr_attribution *a, double share,
			     const struct sr_suggestion *s)
{
	char *list = s->n ? list_of(a, s->members) : NULL;

	if (list)
		printf("  %5.4g %%: %zu rank%s: %s (%.1f %%)\n", 100 * share, s->n,
		       s->n == 1 ? "" : "s", list, percent(s->inside, s->entered));
	else
		printf("  %5.4g %%: no group of the recorded ranks\n", 100 * share);
	free(list);
}

struct producer {
	size_t from;
	uint64_t bytes;
};

static int by_bytes(const void *a, const void *b)
{
	const struct producer *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->from < y->from ? -1 : 1;
}

static void print_producers(const struct sr_attribution *a, bool is_call)
{
	struct producer *list = calloc(a->n + 1, sizeof(*list));
	uint64_t all = 0, nobody = sr_attributed(a, a->n + 1, a->rank, is_call);

	for (size_t i = 0; list && i <= a->n; i++) {
		list[i] = (struct producer){i, sr_attributed(a, i, a->rank, is_call)};
		all += list[i].bytes;
	}
	if (list)
		qsort(list, a->n + 1, sizeof(*list), by_bytes);
	printf("  %" PRIu64 " bytes can be attributed\n", all);
	for (size_t i = 0; list && i <= a->n && list[i].bytes; i++) {
		if (list[i].from < a->n)
			printf("    from rank %d: ", number_of(a, list[i].from));
		else
			printf("    from processes that were not recorded: ");
		printf("%" PRIu64 " bytes (%.1f %%)\n", list[i].bytes, percent(list[i].bytes, all));
	}
	if (nobody)
		printf("  %" PRIu64
		       " bytes nobody can attribute: no recorded rank is known to have "
		       "written them; mostly what memory held at first\n",
		       nobody);
	free(list);
}

/* The command that records these ranks only. */
static void print_command(const struct sr_attribution *a, const struct sr_suggestion *s)
{
	const json_t *process = sr_trace_process(a->trace, number_of(a, 0));
	const json_t *arguments = json_object_get(process, "arguments");
	char *list = s->n ? list_of(a, s->members) : NULL;

	if (!list)
		return;
	printf("next, for each rank: sreplay record --clocks --group=%s -o NEW.srec --", list);
	for (size_t i = 0; i < json_array_size(arguments); i++) {
		char *word = sr_trace_bytes(json_array_get(arguments, i), NULL);

		printf(word && strcspn(word, " '\"\\$&;|<>()*?`#~\t\n") == strlen(word) && *word
			   ? " %s"
			   : " '%s'",
		       word ? word : "");
		free(word);
	}
	putchar('\n');
	free(list);
}

static void print_basis(const struct sr_attribution *a)
{
	if (!a->is_replayed)
		printf("(from addresses and orders of the trace alone; after a replay of all ranks "
		       "from the bytes "
		       "themselves)\n");
}

static void print_slice(const struct sr_attribution *a)
{
	bool *members = calloc(a->n + 1, sizeof(*members)), any = false;
	char *list;

	for (size_t i = 0; members && i < a->n; i++)
		any |= members[i] = sr_rank_set_has(&a->slice, i);
	list = any ? list_of(a, members) : NULL;
	if (list)
		printf("  when its producers wrote it, values of ranks %s had reached them\n",
		       list);
	free(list);
	free(members);
}

/* A line for each share, and the group of the middle one for what comes next. */
static int print_groups(const struct options *o, const struct sr_attribution *a,
			enum sr_suggest_what what, size_t rank, struct sr_suggestion *s)
{
	int err = 0;

	for (size_t i = 0; i < o->shares_n && !err; i++) {
		err = sr_suggest(a, what, rank, o->shares[i], s);
		print_suggestion(a, o->shares[i], s);
	}
	return err ? err : sr_suggest(a, what, rank, o->shares[o->shares_n / 2], s);
}

static int print_rank(const struct options *o, const struct sr_attribution *a,
		      struct sr_suggestion *s)
{
	int err;

	printf("rank %ld:\n", o->rank);
	print_producers(a, false);
	printf("  groups that explain what entered all of their members:\n");
	err = print_groups(o, a, SR_SUGGEST_GROUP, a->rank, s);
	printf("  groups that explain what entered rank %ld:\n", o->rank);
	if (!err)
		err = print_groups(o, a, SR_SUGGEST_RANK, a->rank, s);
	print_command(a, s);
	return err;
}

static int print_call(const struct options *o, const struct sr_attribution *a,
		      struct sr_suggestion *s)
{
	if (!a->call_values)
		return sr_fail("no value from the network entered at SN %" PRIu64
			       " of rank %ld thread %u (sreplay explain says more)",
			       o->sn, o->rank, o->thread);
	printf("rank %ld thread %u SN %" PRIu64 ": %" PRIu64 " value%s\n", o->rank, o->thread,
	       o->sn, a->call_values, a->call_values == 1 ? "" : "s");
	print_producers(a, true);
	print_slice(a);
	if (sr_suggest(a, SR_SUGGEST_CALL, a->rank, 1, s))
		return -ENOMEM;
	print_suggestion(a, 1, s);
	print_command(a, s);
	return 0;
}

/* A line for each rank; then groups for all of their members. */
static int print_all(const struct options *o, const struct sr_attribution *a,
		     struct sr_suggestion *s)
{
	int err = 0;

	for (size_t rank = 0; rank < a->n && !err; rank++) {
		uint64_t entered = 0;

		for (size_t from = 0; from <= a->n; from++)
			entered += sr_attributed(a, from, rank, false);
		printf("rank %d: %" PRIu64 " bytes entered, %" PRIu64
		       " more nobody can attribute; ranks for",
		       number_of(a, rank), entered, sr_attributed(a, a->n + 1, rank, false));
		for (size_t i = 0; i < o->shares_n && !err; i++) {
			err = sr_suggest(a, SR_SUGGEST_RANK, rank, o->shares[i], s);
			printf("%s %.4g %%: ", i ? "," : "", 100 * o->shares[i]);
			printf(s->n ? "%zu" : "none", s->n);
		}
		putchar('\n');
	}
	printf("groups that explain what entered all of their members:\n");
	if (!err)
		err = print_groups(o, a, SR_SUGGEST_GROUP, SR_NO_RANK, s);
	print_command(a, s);
	return err;
}

/* ------------------------------------------------------------------ as JSON */

static json_t *suggestion_json(const struct sr_attribution *a, double share,
			       const struct sr_suggestion *s)
{
	json_t *list = json_array();

	for (size_t i = 0; s->n && i < a->n; i++)
		if (s->members[i])
			json_array_append_new(list, json_integer(number_of(a, i)));
	return json_pack("{s:f, s:o, s:I, s:I}", "share", share, "group", list, "inside",
			 (json_int_t)s->inside, "entered", (json_int_t)s->entered);
}

static json_t *producers_json(const struct sr_attribution *a, bool is_call)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->n; i++) {
		uint64_t bytes = sr_attributed(a, i, a->rank, is_call);

		if (bytes)
			json_array_append_new(list, json_pack("{s:i, s:I}", "rank", number_of(a, i),
							      "bytes", (json_int_t)bytes));
	}
	return list;
}

static json_t *rank_json(const struct sr_attribution *a, size_t rank)
{
	return rank < a->n ? json_integer(number_of(a, rank)) : json_null();
}

/* What a group is computed from: null is outside, or memory that was not fetched. */
static json_t *origins_json(const struct sr_attribution *a, bool is_call)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->origins_n; i++) {
		const struct sr_origin *o = &a->origins[i];

		if (o->to == a->rank && o->is_call == is_call && o->from <= a->n)
			json_array_append_new(list, json_pack("{s:o, s:o, s:I}", "from",
							      rank_json(a, o->from), "memory",
							      rank_json(a, o->memory), "bytes",
							      (json_int_t)o->bytes));
	}
	return list;
}

static json_t *groups_json(const struct options *o, const struct sr_attribution *a,
			   enum sr_suggest_what what, size_t rank, struct sr_suggestion *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < o->shares_n && !sr_suggest(a, what, rank, o->shares[i], s); i++)
		json_array_append_new(list, suggestion_json(a, o->shares[i], s));
	return list;
}

/* rank: SR_NO_RANK: a group of any ranks. */
static int print_json(const struct options *o, const struct sr_attribution *a, size_t rank,
		      struct sr_suggestion *s)
{
	json_t *all = json_pack("{s:o, s:b, s:o}", "trace", sr_json_string(o->dir), "replayed", a->is_replayed,
				"closed_groups", groups_json(o, a, SR_SUGGEST_GROUP, rank, s));
	bool is_call = o->sn != 0;

	if (rank != SR_NO_RANK) {
		json_object_set_new(all, "rank", json_integer(number_of(a, rank)));
		json_object_set_new(
		    all, "groups",
		    groups_json(o, a, is_call ? SR_SUGGEST_CALL : SR_SUGGEST_RANK, rank, s));
		json_object_set_new(all, "producers", producers_json(a, is_call));
		json_object_set_new(all, "origins", origins_json(a, is_call));
		json_object_set_new(
		    all, "not_recorded",
		    json_integer((json_int_t)sr_attributed(a, a->n, rank, is_call)));
		json_object_set_new(
		    all, "nobody",
		    json_integer((json_int_t)sr_attributed(a, a->n + 1, rank, is_call)));
	}
	sr_json_print(all);
	return 0;
}

/* ------------------------------------------------------------------------ all */

static int print(const struct options *o, const struct sr_attribution *a)
{
	struct sr_suggestion s = {.members = calloc(a->n + 1, sizeof(bool))};
	size_t rank = o->rank < 0 ? SR_NO_RANK : a->rank;
	int status;

	if (!s.members)
		return sr_fail("no memory left");
	if (o->json)
		status = print_json(o, a, rank, &s);
	else if (o->sn)
		status = print_call(o, a, &s);
	else
		status = rank == SR_NO_RANK ? print_all(o, a, &s) : print_rank(o, a, &s);
	if (!o->json && !status)
		print_basis(a);
	free(s.members);
	return status < 0 ? sr_fail("no memory left") : status;
}

static int suggest(const struct options *o, struct sr_trace *t)
{
	struct sr_attribution a = {.has_call = o->sn != 0, .thread = o->thread, .sn = o->sn};
	struct sr_error err;
	int status;

	while (o->rank >= 0 && a.rank < sr_trace_ranks(t) &&
	       sr_trace_rank_number(t, a.rank) != o->rank)
		a.rank++;
	if (o->rank >= 0 && a.rank == sr_trace_ranks(t))
		return sr_fail("%s has no rank %ld", o->dir, o->rank);
	if (sr_attribute(&a, t, &err))
		status = sr_fail("%s", err.text);
	else
		status = print(o, &a);
	sr_attribution_free(&a);
	return status;
}

int sr_cmd_suggest(int argc, char **argv)
{
	struct options o = {.rank = -1};
	struct sr_trace *t;
	struct sr_error err;
	int status;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	if (sr_trace_open(&t, o.dir, &err))
		return sr_fail("%s", err.text);
	sr_note_what_sums_lack(t, o.dir);
	status = suggest(&o, t);
	sr_trace_close(t);
	return status;
}
