/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_info.c: `sreplay info`: what a trace holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/command/classes.h"
#include "replay/command/command.h"
#include "replay/command/info_data_path.h"
#include "replay/command/info_left_out.h"
#include "replay/command/info_order.h"
#include "replay/command/guess.h"
#include "replay/print/json.h"
#include "replay/print/marks.h"
#include "replay/print/print.h"
#include "replay/host/start/recorded.h"
#include "replay/analysis/log/schema.h"
#include "replay/command/visit.h"
#include "replay/print/exposed.h"

typedef unsigned long long ull;

#define KINDS SR_KINDS

static const struct argp_child children[] = {{&sr_choice_argp, 0, NULL, 0}, {0}};

static const struct argp_option option_list[] = {
    {"order", 'o', NULL, 0, "what the order of requests, completions and values takes, by class", 0},
    {0},
};

struct summary {
	uint64_t threads, without_end;
	uint64_t calls, records, raw_bytes, stored_bytes;
	uint64_t signals, signals_between, signals_placed;
	/* With --threads=serial: how often a thread lost the run token, and the first time. */
	uint64_t late, late_site, late_sn;
	uint64_t stops; /* of threads that made no call, at places */
	uint32_t late_thread;
	uint64_t of_kind[KINDS];
	struct sr_classes classes;
	struct sr_exposed_sum regions;
	struct sr_left_out_sum left_out;
	char end[512]; /* of the process, or why there is none */
	bool has_status;
	int32_t status;
	bool executes; /* a thread's last record is that of an exec; had it failed, a call would follow */
	char executed[256];
};

struct info {
	struct sr_choice choice;
	struct summary sum; /* of this rank */
	struct sr_schema *schema;
	struct sr_log_kinds kinds;
	bool has_kinds, leaves_out;
	struct sr_data_path *data_path; /* NULL: the trace's calls have another layout */
	bool wants_order;
	struct sr_info_order *order; /* likewise, and NULL if it is not wanted */
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct info *i = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &i->choice;
		return 0;
	case 'o':
		i->wants_order = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
    option_list, parse_option,
    NULL,        "Say what a trace holds: its ranks, their programs, calls and ends.",
    children,    NULL,
    NULL,
};

/* One thread's stream has the process's end; marks of others say why there is none. */
static void note_end(struct summary *sum, const struct sr_entry *e)
{
	enum sr_mark reason;
	char sentence[512];

	if (sr_entry_exit(e, &sum->status)) {
		sum->has_status = true;
		snprintf(sum->end, sizeof(sum->end), "ended with status %d", sum->status);
	} else if (sr_entry_mark(e, &reason, sentence, sizeof(sentence)) &&
		   reason != SR_MARK_ENDED) {
		memcpy(sum->end, sentence, sizeof(sum->end));
	}
}

/* Marks follow it. */
static void note_exec(bool *executes, struct summary *sum, const struct sr_entry *e)
{
	if (e->kind >= SR_REC_CALL)
		*executes = false;
	if (e->kind != SR_REC_EXEC)
		return;
	*executes = true;
	snprintf(sum->executed, sizeof(sum->executed), "%.*s", (int)e->size,
		 (const char *)e->payload);
}

static void note_signal(struct summary *sum, const struct sr_entry *e)
{
	struct sr_signal_payload p;

	if (e->kind != SR_REC_SIGNAL || e->size < sizeof(p))
		return;
	memcpy(&p, e->payload, sizeof(p));
	sum->signals++;
	sum->signals_between += p.place == SR_SIGNAL_BETWEEN;
	sum->signals_placed += p.flags & SR_SIGNAL_SAME_PLACE || p.place == SR_SIGNAL_AT_HEAP;
}

static void note_place(struct summary *sum, const struct sr_entry *e)
{
	struct sr_place_payload p;

	if (e->kind != SR_REC_PLACE || e->size < sizeof(p))
		return;
	memcpy(&p, e->payload, sizeof(p));
	if (p.flags & SR_PLACE_SIGNAL)
		sum->signals_placed++;
	else
		sum->stops++;
}

static void note_late(struct summary *sum, const struct sr_entry *e, uint32_t thread)
{
	struct sr_token_payload p;

	if (e->kind != SR_REC_RUN_TOKEN || e->size < sizeof(p))
		return;
	memcpy(&p, e->payload, sizeof(p));
	if ((p.what != SR_RUN_TOKEN_REACQUIRED && p.what != SR_RUN_TOKEN_REJOINED) || sum->late++)
		return;
	sum->late_site = p.site;
	sum->late_sn = e->sn;
	sum->late_thread = thread;
}

static int read_stream(void *argument, struct sr_stream *s, int32_t rank, uint32_t thread)
{
	struct info *i = argument;
	struct summary *sum = &i->sum;
	const struct sr_stream_totals *totals = sr_stream_totals(s);
	uint16_t last_call = 0;
	bool executes = false;
	struct sr_entry e;
	int got;

	sr_stream_fold_cycles(s);
	while ((got = sr_stream_next(s, &e)) > 0) {
		if (e.kind >= SR_REC_CALL)
			last_call = e.kind;
		if (e.kind >= SR_REC_CALL || e.kind == SR_REC_REPEAT) {
			sum->of_kind[last_call] += e.count;
			sum->calls += e.count;
		}
		sr_classes_add(&sum->classes, &e);
		note_signal(sum, &e);
		note_late(sum, &e, thread);
		note_place(sum, &e);
		note_end(sum, &e);
		note_exec(&executes, sum, &e);
		sr_exposed_sum_add(&sum->regions, &e);
		if (i->leaves_out)
			sr_left_out_add(&sum->left_out, &i->kinds, &e);
		if (i->data_path)
			sr_data_path_add(i->data_path, &i->kinds, &e);
		if (i->order)
			sr_info_order_add(i->order, &i->kinds, &e);
	}
	if (i->data_path)
		sr_data_path_end_stream(i->data_path);
	if (i->order)
		sr_info_order_end_stream(i->order);
	sum->executes = sum->executes || executes;
	sum->threads++;
	sum->without_end += !sr_stream_ended(s);
	sum->records += totals->records;
	sum->raw_bytes += totals->raw_bytes;
	sum->stored_bytes += totals->stored_bytes;
	return got < 0 ? SR_EXIT_FAILED : 0;
}

static void print_calls(const struct summary *sum, const struct sr_schema *schema)
{
	for (size_t kind = SR_REC_CALL; kind < KINDS; kind++)
		if (sum->of_kind[kind])
			printf("  %10llu  %s\n", (ull)sum->of_kind[kind],
			       sr_schema_name(schema, (uint16_t)kind));
}

/* The program uses what such a call returns without further calls, so the trace lacks that. */
static uint64_t count_direct(const struct summary *sum, const struct sr_schema *schema)
{
	uint64_t calls = 0;

	for (size_t kind = SR_REC_CALL; kind < KINDS; kind++)
		if (sr_schema_is_direct(schema, (uint16_t)kind))
			calls += sum->of_kind[kind];
	return calls;
}

static void print_direct(uint64_t calls)
{
	if (calls)
		printf(
		    "  not complete: direct verbs were let through (--allow-direct), %llu call%s; "
		    "a replay ends at the first\n",
		    (ull)calls, calls == 1 ? "" : "s");
}

/* Says whether what the threads decide by plain atomics is replayed. */
static void print_threads(const struct summary *sum, const struct sr_recorded *r)
{
	struct sr_print with = {.symbols = NULL};

	if (!r->serial || sum->threads < 2)
		return;
	if (sum->stops)
		printf("  %llu time%s a thread made no call for long, and was stopped between two calls\n",
		       (ull)sum->stops, sum->stops == 1 ? "" : "s");
	if (!sum->late) {
		puts("  threads one at a time (--threads=serial), without exception");
		return;
	}
	with.symbols = sr_symbols_new(json_object_get(r->json, "objects"));
	printf("  threads one at a time (--threads=serial), except %llu time%s when one computed, or made no call "
	       "for long, and others ran beside it; first before thread %u SN %llu ",
	       (ull)sum->late, sum->late == 1 ? "" : "s", sum->late_thread, (ull)sum->late_sn);
	sr_print_site(stdout, &with, sum->late_site);
	putchar('\n');
	sr_symbols_free(with.symbols);
}

static void print_command(char **argv)
{
	printf("  command:");
	for (; *argv; argv++)
		printf(" %s", *argv);
	putchar('\n');
}

static void print_trace(void *argument, struct sr_trace *t)
{
	const struct info *i = argument;
	size_t ranks = sr_trace_ranks(t);

	if (i->choice.json)
		sr_json_print(json_pack("{s:o, s:i, s:I}", "trace", sr_json_string(i->choice.dir), "version",
					SR_TRACE_VERSION, "ranks", (json_int_t)ranks));
	else
		printf("%s: trace version %d, %zu rank%s\n", i->choice.dir, SR_TRACE_VERSION, ranks,
		       ranks == 1 ? "" : "s");
}

static int begin_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	struct info *i = argument;
	struct sr_error err;

	memset(&i->sum, 0, sizeof(i->sum));
	snprintf(i->sum.end, sizeof(i->sum.end), "no end: still running, or the trace is cut");
	i->schema = sr_schema_of(t, rank, &err);
	i->has_kinds = !sr_log_kinds_load(&i->kinds, t, rank, NULL);
	i->leaves_out = i->has_kinds && sr_trace_leaves_out(t, rank);
	i->data_path = i->has_kinds ? sr_data_path_new(t, rank) : NULL;
	i->order = i->data_path && i->wants_order ? sr_info_order_new(t, rank) : NULL;
	return i->schema ? 0 : sr_fail("%s", err.text);
}

static void print_end(const struct summary *sum, const struct sr_trace *t, int32_t rank)
{
	bool is_last = sr_trace_image(t, rank) + 1 == sr_trace_images(t, rank);

	if (sum->executes)
		printf("executed %s%s\n", sum->executed, is_last ? ", which is not recorded" : "");
	else
		puts(sum->end);
}

static const json_t *kernel_release(const struct sr_recorded *r)
{
	return json_object_get(json_object_get(r->json, "kernel"), "release");
}

/* A child: which call of its parent has forked it. */
static void print_fork(const struct sr_trace *t, int32_t rank, const struct sr_recorded *r)
{
	if (sr_trace_child(t, rank))
		printf("  forked by thread %lld of its parent at SN %llu; replay it by sreplay replay -r %s\n",
		       (long long)json_integer_value(json_object_get(r->json, "forked_by")),
		       (ull)sr_trace_sns_before(t, rank), sr_trace_rank_name(t, rank));
}

static void print_text(const struct info *i, const struct sr_trace *t, int32_t rank,
		       const struct sr_recorded *r)
{
	const struct summary *sum = &i->sum;

	printf("rank %s: %s, ", sr_trace_rank_label(t, rank), r->exe);
	print_end(sum, t, rank);
	print_command(r->argv);
	print_fork(t, rank, r);
	printf("  on %s, Linux %s, process %lld\n",
	       json_string_value(json_object_get(r->json, "hostname")),
	       json_string_value(kernel_release(r)),
	       (long long)json_integer_value(json_object_get(r->json, "pid")));
	printf("  %llu thread%s, %llu calls in %llu records, %llu bytes (%llu on disk)\n",
	       (ull)sum->threads, sum->threads == 1 ? "" : "s", (ull)sum->calls, (ull)sum->records,
	       (ull)sum->raw_bytes, (ull)sum->stored_bytes);
	if (sum->without_end)
		printf("  %llu of the threads without an end: still running, or their last "
		       "calls are lost\n",
		       (ull)sum->without_end);
	if (sum->signals)
		printf("  %llu signal%s handled, %llu of them in computing code, and %llu there at places that are not "
		       "in the trace\n",
		       (ull)sum->signals, sum->signals == 1 ? "" : "s", (ull)(sum->signals_placed + sum->signals_between),
		       (ull)sum->signals_between);
	print_threads(sum, r);
	print_direct(count_direct(sum, i->schema));
	if (sr_trace_leaves_out(t, rank))
		sr_left_out_print(&sum->left_out);
	if (i->data_path)
		sr_data_path_print(i->data_path);
	if (i->wants_order) {
		if (i->order)
			sr_info_order_print(i->order, sr_data_path_events(i->data_path));
		return;
	}
	sr_exposed_sum_print(&sum->regions);
	print_calls(sum, i->schema);
	sr_classes_print(&sum->classes, i->schema);
}

static json_t *calls_json(const struct summary *sum, const struct sr_schema *schema)
{
	json_t *calls = json_object();

	for (size_t kind = SR_REC_CALL; kind < KINDS; kind++)
		if (sum->of_kind[kind])
			json_object_set_new(calls, sr_schema_name(schema, (uint16_t)kind),
					    sr_json_count(sum->of_kind[kind]));
	return calls;
}

static void print_json(const struct info *i, const struct sr_trace *t, int32_t rank,
		       const struct sr_recorded *r)
{
	const struct summary *sum = &i->sum;
	json_t *line = json_pack(
	    "{s:i, s:i, s:o, s:O?, s:O?, s:O?, s:O?}", "rank", rank, "image",
	    (int)sr_trace_image(t, rank), "executable", sr_json_string(r->exe), "arguments",
	    json_object_get(r->json, "arguments"), "host", json_object_get(r->json, "hostname"),
	    "kernel", kernel_release(r), "pid", json_object_get(r->json, "pid"));

	if (sr_trace_child(t, rank)) {
		json_object_set_new(line, "child", json_string(sr_trace_child(t, rank)));
		json_object_set(line, "forked_by", json_object_get(r->json, "forked_by"));
		json_object_set_new(line, "forked_at", sr_json_count(sr_trace_sns_before(t, rank)));
	}
	json_object_set_new(line, "status", sum->has_status ? json_integer(sum->status) : json_null());
	json_object_set_new(line, "end", sum->executes ? json_null() : sr_json_string(sum->end));
	json_object_set_new(line, "executed", sum->executes ? sr_json_string(sum->executed) : json_null());
	json_object_set_new(line, "threads", sr_json_count(sum->threads));
	json_object_set_new(line, "threads_without_end", sr_json_count(sum->without_end));
	json_object_set_new(line, "calls", sr_json_count(sum->calls));
	json_object_set_new(line, "records", sr_json_count(sum->records));
	json_object_set_new(line, "bytes", sr_json_count(sum->raw_bytes));
	json_object_set_new(line, "bytes_on_disk", sr_json_count(sum->stored_bytes));
	json_object_set_new(line, "signals", sr_json_count(sum->signals));
	json_object_set_new(line, "signals_between_calls", sr_json_count(sum->signals_between));
	json_object_set_new(line, "signals_at_places", sr_json_count(sum->signals_placed));
	json_object_set_new(line, "one_thread_at_a_time", json_boolean(r->serial));
	json_object_set_new(line, "times_beside", sr_json_count(sum->late));
	json_object_set_new(line, "times_stopped", sr_json_count(sum->stops));
	json_object_set_new(line, "direct_verbs", sr_json_count(count_direct(sum, i->schema)));
	json_object_set_new(line, "exposed", sr_exposed_sum_json(&sum->regions));
	json_object_set_new(line, "messages_left_out", json_boolean(sr_trace_leaves_out(t, rank)));
	json_object_set_new(line, "left_out", sr_trace_leaves_out(t, rank) ? sr_left_out_json(&sum->left_out) : json_null());
	json_object_set_new(line, "data_path", i->data_path ? sr_data_path_json(i->data_path) : json_null());
	if (i->wants_order)
		json_object_set_new(line, "order",
				    i->order ? sr_info_order_json(i->order, sr_data_path_events(i->data_path)) : json_null());
	json_object_set_new(line, "calls_by_name", calls_json(sum, i->schema));
	json_object_set_new(line, "bytes_by_class", sr_classes_json(&sum->classes, i->schema));
	sr_json_print(line);
}

static int print_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	struct info *i = argument;
	struct sr_recorded r;
	int status = SR_EXIT_FAILED;

	if (sr_recorded_load(&r, t, rank, i->choice.dir)) {
		status = 0;
		if (i->choice.json)
			print_json(i, t, rank, &r);
		else
			print_text(i, t, rank, &r);
		sr_recorded_free(&r);
	}
	sr_schema_free(i->schema);
	sr_data_path_free(i->data_path);
	sr_info_order_free(i->order);
	i->data_path = NULL;
	i->order = NULL;
	return status;
}

int sr_cmd_info(int argc, char **argv)
{
	static const struct sr_visitor visitor = {.trace = print_trace,
						  .rank = begin_rank,
						  .stream = read_stream,
						  .rank_end = print_rank,
						  .thread = -1,
						  .children = true,
						  .cannot_open = SR_EXIT_FAILED};
	struct info *i = calloc(1, sizeof(*i));
	int status = SR_EXIT_FAILED;

	if (!i)
		return sr_fail("no memory");
	i->choice = (struct sr_choice)SR_CHOICE_INIT;
	if (!sr_argp_parse(&argp, argc, argv, 0, i))
		status = sr_visit(&i->choice, &visitor, i);
	free(i);
	return status;
}
