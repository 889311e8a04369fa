/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_races.c: `sreplay races`: accesses by RDMA and by CPUs to the same memory that nothing orders
 * (analysis/races).  Writes what it finds to DIR.srec/races.json as well.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/analysis/races/hooked.h"
#include "replay/analysis/races/races.h"
#include "replay/analysis/log/children.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/log/prefault.h"
#include "replay/analysis/log/sizes.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/command/races_again.h"
#include "replay/command/races_watch.h"
#include "replay/command/suppress.h"
#include "replay/command/traces.h"
#include "replay/host/group/choose.h"
#include "replay/print/consistency.h"
#include "replay/print/json.h"
#include "replay/print/progress.h"
#include "replay/print/races.h"

#define FOUND_RACES 1 /* the exit status */
#define JOBS_MOST   256
#define MEMORY_MIB  512 /* by default */
#define MEMORY_LEAST 256 /* with less, pages come and go all the time */
#define MEMORY_MOST  (1L << 30)

struct options {
	struct sr_trace_options common;
	const char *suppress;
	FILE *json; /* --json=FILE; NULL: with --json alone standard output has the JSON, and no text */
	enum sr_memory_model memory;
	enum sr_race_predict predict;
	unsigned int jobs;
	size_t memory_mib;
	bool no_loads, replays, hooks, notes, messages, consistency, shared_is_seen;
};

enum { KEY_LOCAL = 256, KEY_MODEL, KEY_PREDICT, KEY_SUPPRESS, KEY_NOTES, KEY_JSON, KEY_MESSAGES, KEY_SC, KEY_SHARED, KEY_MEMORY };

static const struct argp_option option_list[] = {
    {"model", KEY_MODEL, "MODEL", 0,
     "device (default): who sees a WRITE sees those before it on its queue pair; iba: only what the InfiniBand "
     "specification promises",
     0},
    {"local", KEY_LOCAL, "WHAT", 0,
     "accesses of CPUs: replay (default): stores to memory that requests access, found by replaying the ranks, and "
     "what is recorded; recorded: the loads that found what peers wrote; hooks: these, and what programs compiled with "
     "-fsanitize=thread have recorded (libsreplay_access.so); none",
     0},
    {"predict", KEY_PREDICT, "HOW", 0,
     "order (default): who has a lock comes after those that had it before, as in the recorded run; locks: those that have a lock may "
     "come in another order, and only exclude each other; lockset: as locks, and possible races of what only a barrier or a lock is to keep apart",
     0},
    {"group", 'g', "LIST", 0, "races in the memory of these ranks only, e.g. 0,2-5", 0},
    {"messages", KEY_MESSAGES, NULL, 0, "races of messages for the receives of one shared receive queue as well", 0},
    {"sc", KEY_SC, NULL, 0, "violations of sequential consistency as well: observed ones, and those that another run may have", 0},
    {"shared-memory", KEY_SHARED, "WHAT", 0,
     "what ranks that share memory may tell each other there: doubt (default): anything, so that no race is more than possible; seen: what "
     "they found there, which is in the trace (an own spin lock that nobody ever waited for leaves nothing)",
     0},
    {"notes", KEY_NOTES, NULL, 0, "print notes as well: flags, equal values, and what is only possible", 0},
    {"suppress", KEY_SUPPRESS, "FILE", 0, "leave out races whose places match a line of FILE", 0},
    {"jobs", 'j', "N", 0, "replay N ranks at once, and search in N threads (default: one for each CPU); what is found does not depend on it", 0},
    {"memory", KEY_MEMORY, "MIB", 0, "take about so many MiB of memory (default: 512); what is more is in a file in $TMPDIR, else in /var/tmp", 0},
    {"json", KEY_JSON, "FILE", OPTION_ARG_OPTIONAL, "print JSON instead of text: a line for the trace, and one for each race; with =FILE, write it there as well", 0},
    SR_QUIET_OPTION,
    {0},
};

static unsigned int parse_jobs(const char *arg, struct argp_state *state)
{
	char *end;
	long n = strtol(arg, &end, 10);

	if (*end || end == arg || n < 1 || n > JOBS_MOST)
		argp_error(state, "-j %s: expected a number from 1 to %d", arg, JOBS_MOST);
	return (unsigned int)n;
}

static size_t parse_memory(const char *arg, struct argp_state *state)
{
	char *end;
	long n = strtol(arg, &end, 10);

	if (*end || end == arg || n < MEMORY_LEAST || n > MEMORY_MOST)
		argp_error(state, "--memory %s: expected a number from %d to %ld", arg, MEMORY_LEAST, MEMORY_MOST);
	return (size_t)n;
}

static unsigned int usual_jobs(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > JOBS_MOST ? JOBS_MOST : (unsigned int)n;
}

/* Before anything else: a search may take long. */
static FILE *open_json(const char *path, struct argp_state *state)
{
	FILE *f = fopen(path, "we");

	if (!f)
		argp_failure(state, SR_EXIT_FAILED, errno, "cannot write %s", path);
	return f;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	/* Under the sanitizers the compiler thinks that arg may be NULL. */
	switch (key) {
	case KEY_MODEL:
		if (strcmp(arg, "device") && strcmp(arg, "iba"))
			argp_error(state, "--model=%s: expected device or iba", arg);
		o->memory = strcmp(arg, "iba") ? SR_MODEL_DEVICE : SR_MODEL_IBA;
		return 0;
	case KEY_LOCAL:
		if (strcmp(arg, "replay") && strcmp(arg, "recorded") && strcmp(arg, "hooks") && strcmp(arg, "none"))
			argp_error(state, "--local=%s: expected replay, recorded, hooks or none", arg ? arg : "");
		o->replays = !strcmp(arg, "replay");
		o->hooks = !strcmp(arg, "hooks");
		o->no_loads = !strcmp(arg, "none");
		return 0;
	case KEY_PREDICT:
		if (strcmp(arg, "order") && strcmp(arg, "locks") && strcmp(arg, "lockset"))
			argp_error(state, "--predict=%s: expected order, locks or lockset", arg ? arg : "");
		o->predict = !strcmp(arg, "lockset") ? SR_PREDICT_LOCKSET : strcmp(arg, "locks") ? SR_PREDICT_ORDER : SR_PREDICT_LOCKS;
		return 0;
	case KEY_SUPPRESS:
		o->suppress = arg;
		return 0;
	case KEY_NOTES:
		o->notes = true;
		return 0;
	case KEY_MESSAGES:
		o->messages = true;
		return 0;
	case KEY_SC:
		o->consistency = true;
		return 0;
	case KEY_SHARED:
		if (strcmp(arg, "doubt") && strcmp(arg, "seen"))
			argp_error(state, "--shared-memory=%s: expected doubt or seen", arg ? arg : "");
		o->shared_is_seen = !strcmp(arg, "seen");
		return 0;
	case KEY_JSON:
		if (arg) {
			o->json = open_json(arg, state);
			return 0;
		}
		return sr_parse_trace_options('j', NULL, state, &o->common);
	case 'j':
		o->jobs = parse_jobs(arg, state);
		return 0;
	case KEY_MEMORY:
		o->memory_mib = parse_memory(arg, state);
		return 0;
	default:
		return sr_parse_trace_options(key, arg, state, &o->common);
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec",
    "Find races: accesses to the same memory by requests and by CPUs, of which one is a write, that nothing orders in "
    "every run.\vThe exit status is 0 if there is none, 1 if there are races, 125 if something failed. Notes do not "
    "count. The races, notes among them, are in DIR.srec/races.json as well.",
    NULL,
    NULL,
    NULL,
};

/* --------------------------------------------------------------- what is found */

struct output {
	const struct options *o;
	struct sr_races *r;
	struct sr_call_sites *sites;
	struct sr_suppressions *suppressions;
	json_t *list;
	json_t *earlier; /* what races.json was before; NULL: there is none */
	json_t *cycles;
	uint64_t errors, warnings, notes, suppressed;
	uint64_t observed, possible; /* cycles */
};

static bool is_suppressed(struct output *x, const struct sr_race *race)
{
	char *a = sr_race_place(x->sites, x->r, &race->a), *b = sr_race_place(x->sites, x->r, &race->b);
	bool is = a && b && sr_is_suppressed(x->suppressions, sr_race_class_word(race->class), a, b);

	free(a);
	free(b);
	return is;
}

/* What sreplay confirm has shown stays shown. */
static json_t *confirm(const struct output *x, struct sr_race *race)
{
	json_t *confirmation = sr_races_confirmation(x->earlier, race);

	if (confirmation) {
		race->evidence = SR_RACE_CONFIRMED;
		race->severity = sr_race_severity_of(race);
	}
	return confirmation;
}

static void print_confirmation(const json_t *c)
{
	const char *effect = json_string_value(json_object_get(c, "effect"));
	json_t *order;
	size_t i;

	printf("  confirmed by %s", effect ? "runs in both orders" : "a run");
	json_array_foreach(json_object_get(c, "orders"), i, order)
		if (json_is_true(json_object_get(order, "forced")))
			printf("%s races/%s", i ? "," : ":", json_string_value(json_object_get(order, "trace")));
	printf("%s%s\n", effect ? "; effect: " : "", effect ? effect : "");
}

static void put_race(struct output *x, struct sr_race *race, size_t number)
{
	json_t *confirmation = confirm(x, race), *json;

	if (is_suppressed(x, race)) {
		x->suppressed++;
		return;
	}
	x->errors += race->severity == SR_RACE_ERROR;
	x->warnings += race->severity == SR_RACE_WARNING;
	x->notes += race->severity == SR_RACE_NOTE;
	json = sr_race_json(x->sites, x->r, race, number);
	if (confirmation)
		json_object_set(json, "confirmation", confirmation);
	json_array_append_new(x->list, json);
	if (x->o->common.json || (race->severity == SR_RACE_NOTE && !x->o->notes))
		return;
	sr_race_print(stdout, x->sites, x->r, race, number);
	if (confirmation)
		print_confirmation(confirmation);
}

static void put_cycle(struct output *x, const struct sr_cycle *c, size_t number)
{
	x->observed += c->is_observed;
	x->possible += !c->is_observed;
	json_array_append_new(x->cycles, sr_cycle_json(x->sites, x->r, c, number));
	if (!x->o->common.json)
		sr_cycle_print(stdout, x->sites, x->r, c, number);
}

static const char *word_of_local(const struct options *o)
{
	return o->no_loads ? "none" : o->hooks ? "hooks" : o->replays ? "replay" : "recorded";
}

static json_t *whole(struct output *x)
{
	const struct sr_race_run *run = &x->r->run;

	return json_pack(
	    "{s:o, s:i, s:s, s:s, s:{s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}, s:O}", "trace",
	    sr_json_string(x->o->common.dir), "version", 1, "model",
	    x->o->memory == SR_MODEL_IBA ? "iba" : "device", "local", word_of_local(x->o), "found",
	    "errors", (json_int_t)x->errors, "warnings", (json_int_t)x->warnings, "notes", (json_int_t)x->notes,
	    "suppressed", (json_int_t)x->suppressed, "collected", "accesses", (json_int_t)x->r->accesses, "requests",
	    (json_int_t)run->requests, "loads", (json_int_t)run->loads, "stores", (json_int_t)run->stores, "producers_known", (json_int_t)run->certain,
	    "producers_unknown", (json_int_t)run->uncertain, "orders_dropped", (json_int_t)x->r->dropped, "clocks", run->has_clocks, "races", x->list);
}

/* `sreplay races` may be used on a trace that cannot be written to. */
static void write_beside(const json_t *all, const char *dir)
{
	char *path = NULL;

	if (asprintf(&path, "%s/races.json", dir) < 0)
		return;
	if (json_dump_file(all, path, JSON_INDENT(2) | JSON_ENSURE_ASCII))
		sr_note("cannot write %s", path);
	free(path);
}

static void write_lines(const struct output *x, json_t *head, FILE *out)
{
	json_t *line;
	size_t i;

	sr_json_write(out, json_incref(head));
	json_array_foreach(x->list, i, line) sr_json_write(out, json_incref(line));
	json_array_foreach(x->cycles, i, line) sr_json_write(out, json_incref(line));
}

static int write_all(struct output *x)
{
	json_t *all = whole(x);

	if (!all)
		return sr_fail("no memory left");
	if (x->o->consistency) {
		json_object_set_new(json_object_get(all, "found"), "violations", json_pack("{s:I, s:I}", "observed", (json_int_t)x->observed, "possible", (json_int_t)x->possible));
		json_object_set(all, "consistency", x->cycles);
	}
	write_beside(all, x->o->common.dir);
	json_object_del(all, "races");
	json_object_del(all, "consistency");
	if (x->o->common.json)
		write_lines(x, all, stdout);
	if (x->o->json)
		write_lines(x, all, x->o->json);
	json_decref(all);
	return 0;
}

/* MPI's ranks on one host send their messages through memory that they share: a user must know how to go on. */
static void print_way_out(const struct output *x)
{
	uint64_t n = 0;

	for (size_t i = 0; i < x->r->n; i++)
		n += x->r->races[i].doubts == SR_DOUBT_SHARED;
	if (!n)
		return;
	printf("%" PRIu64 " of the notes cannot be decided as the ranks share memory: record the job without (UCX: "
	       "UCX_TLS=rc_verbs,ud_verbs,self)%s\n",
	       n, x->o->shared_is_seen ? "" : ", and go by what they found there (--shared-memory=seen)");
}

static void print_totals(const struct output *x)
{
	const struct sr_race_run *run = &x->r->run;

	if (x->o->common.json)
		return;
	printf("%s: %" PRIu64 " errors, %" PRIu64 " warnings, %" PRIu64 " notes%s; %" PRIu64
	       " accesses of %" PRIu64 " requests, %" PRIu64 " loads and %" PRIu64 " stores\n",
	       x->o->common.dir, x->errors, x->warnings, x->notes,
	       x->notes && !x->o->notes ? " (--notes prints them)" : "", x->r->accesses, run->requests, run->loads,
	       run->stores);
	print_way_out(x);
	if (x->suppressed)
		printf("%" PRIu64 " suppressed\n", x->suppressed);
	if (x->o->consistency)
		printf("sequential consistency: %" PRIu64 " violations observed, %" PRIu64 " possible\n", x->observed, x->possible);
}

static void say_doubts(const struct sr_races *r)
{
	if (!r->run.has_clocks)
		sr_note("not all ranks were recorded with --clocks: no more than possible races can be found");
	if (r->run.counts.holes)
		sr_note("the trace lacks %" PRIu64 " calls: no more than possible races can be found",
			r->run.counts.holes);
	if (r->not_asked)
		sr_note("%" PRIu64 " ordered pairs were not looked at for barriers between them (--predict=lockset)", r->not_asked);
}

/* The trace names only those that were loaded when it began. */
static void name_libraries(struct sr_call_sites *sites, const struct sr_races *r)
{
	for (size_t i = 0; i < r->stacks->libraries_n; i++) {
		const struct sr_race_library *l = &r->stacks->libraries[i];

		sr_call_sites_add(sites, sr_trace_rank_number(r->how.trace, l->rank), l->path, l->begin, l->end);
	}
}

static int print_all(const struct options *o, struct sr_races *r)
{
	struct output x = {.o = o,
			   .r = r,
			   .sites = sr_call_sites_new(r->how.trace),
			   .list = json_array(),
			   .cycles = json_array(),
			   .earlier = sr_races_earlier(o->common.dir)};
	struct sr_error err;
	int status = 0;

	if (o->suppress && !(x.suppressions = sr_suppressions_read(o->suppress)))
		status = SR_EXIT_FAILED;
	else if (!x.sites || !x.list || !x.cycles)
		status = sr_fail("no memory left");
	if (!status && r->stacks)
		name_libraries(x.sites, r);
	for (size_t i = 0; i < r->n && !status; i++)
		put_race(&x, &r->races[i], i + 1);
	for (size_t i = 0; i < r->consistency.n && !status; i++)
		put_cycle(&x, &r->consistency.cycles[i], i + 1);
	if (!status && sr_races_add_instances(x.list, x.sites, r, &err))
		status = sr_fail("%s", err.text);
	if (!status) {
		print_totals(&x);
		say_doubts(r);
		status = write_all(&x);
	}
	if (!status && x.errors + x.warnings + x.observed + x.possible)
		status = FOUND_RACES;
	sr_suppressions_free(x.suppressions);
	sr_call_sites_free(x.sites);
	json_decref(x.list);
	json_decref(x.cycles);
	json_decref(x.earlier);
	return status;
}

/* ------------------------------------------------------------------------- all */

/* By index among the trace's ranks: is it in the list?  NULL after a message. */
static bool *choose(struct sr_trace *t, const struct options *o)
{
	int32_t *ranks;
	size_t n = sr_ranks_choose(t, o->common.dir, o->common.group, &ranks);
	bool *group = n ? calloc(sr_trace_ranks(t) + 1, sizeof(*group)) : NULL;

	for (size_t i = 0; group && i < sr_trace_ranks(t); i++)
		for (size_t k = 0; k < n; k++)
			group[i] |= sr_trace_rank_number(t, i) == ranks[k];
	if (n)
		free(ranks);
	if (n && !group)
		sr_fail("no memory left");
	return group;
}

static void show(void *argument, uint64_t done, uint64_t size)
{
	const sr_progress *bar = argument;

	if (*bar)
		(*bar)((double)done / (double)size);
}

static int find_races(struct sr_races *r, struct sr_trace *t, bool quiet, struct sr_error *err)
{
	sr_progress bar = sr_progress_begin("reading", sr_stream_bytes(t, -1), quiet);
	int ret;

	r->how.progress = show;
	r->how.argument = &bar;
	ret = sr_races_find(r, err);
	sr_progress_end();
	return ret;
}

static int read_hooks(struct sr_race_watches *watches, struct sr_trace *t, const struct sr_links *links, struct sr_error *err)
{
	size_t ranks;
	int ret = sr_race_watches_hooked(watches, t, links, &ranks, err);

	if (!ret && ranks < links->ranks_n)
		sr_note("%zu of %zu ranks have hooks: of the others, stores and loads that found nothing new are not seen", ranks, links->ranks_n);
	return ret;
}

static int find(const struct options *o, struct sr_trace *t)
{
	struct sr_links links = {0};
	struct sr_race_watches watches = {0};
	struct sr_race_stacks stacks = {0};
	struct sr_race_results results = {0};
	bool *group = choose(t, o);
	struct sr_races r = {.how = {.trace = t,
				     .links = &links,
				     .group = group,
				     .memory = o->memory,
				     .predict = o->predict,
				     .no_loads = o->no_loads,
				     .messages = o->messages,
				     .results = &results,
				     .threads = o->jobs,
				     .consistency = o->consistency,
				     .shared_is_seen = o->shared_is_seen}};
	struct sr_error err;
	int status = SR_EXIT_FAILED, ret;

	if (!group)
		return status;
	ret = sr_links_find(&links, t, NULL, &err);
	if (!ret && o->replays) {
		if (!sr_watches_find(&watches, &stacks, &r.how, o->common.dir, o->jobs))
			goto out;
		r.how.watches = &watches;
		r.stacks = &stacks;
	}
	if (!ret && o->hooks) {
		ret = read_hooks(&watches, t, &links, &err);
		r.how.watches = &watches;
	}
	if (!ret)
		ret = find_races(&r, t, o->common.quiet, &err);
	if (!ret && o->replays) {
		const int waits = sr_watches_try(&watches, &r, o->common.dir);

		if (waits < 0)
			goto out;
		if (waits) {
			sr_races_free(&r);
			ret = find_races(&r, t, o->common.quiet, &err);
		}
		if (!ret && sr_watches_try_skips(&watches, &r, o->common.dir))
			goto out;
	}
	status = ret ? sr_fail("%s", err.text) : print_all(o, &r);
out:
	sr_races_free(&r);
	sr_race_results_free(&results);
	sr_race_watches_free(&watches);
	sr_race_stacks_free(&stacks);
	sr_links_free(&links);
	free(group);
	return status;
}

/* What entered is compared with what was written. */
static bool leaves_out(const struct sr_trace *t, const char *dir)
{
	size_t n = sr_trace_ranks(t);

	for (size_t i = 0; i < n; i++)
		if (sr_trace_leaves_out(t, sr_trace_rank_number(t, i)))
			return sr_fail("%s leaves out what the ranks sent each other (record --order): first sreplay replay "
				       "--record-ranks %d-%d -o DETAIL.srec %s",
				       dir, sr_trace_rank_number(t, 0), sr_trace_rank_number(t, n - 1), dir);
	return false;
}

int sr_cmd_races(int argc, char **argv)
{
	struct options o = {.replays = true, .jobs = usual_jobs(), .memory_mib = MEMORY_MIB};
	struct sr_trace *t;
	struct sr_error err;
	int status;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	sr_large_limit(o.memory_mib << 20);
	if (o.jobs > 1) {
		sr_prefault_start();
		sr_streams_read_ahead();
	}
	if (sr_trace_open(&t, o.common.dir, &err))
		return sr_fail("%s", err.text);
	if (sr_children_adopt(t, &err)) {
		sr_trace_close(t);
		return sr_fail("%s", err.text);
	}
	status = leaves_out(t, o.common.dir) ? SR_EXIT_FAILED : find(&o, t);
	sr_trace_close(t);
	if (o.json && (ferror(o.json) | fclose(o.json)) && status != SR_EXIT_FAILED)
		status = sr_fail("cannot write all of the JSON: %s", strerror(errno));
	return status;
}
