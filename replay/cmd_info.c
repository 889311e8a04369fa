/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_info.c: `sreplay info`: what a trace holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/reader.h"
#include "replay/command.h"
#include "replay/marks.h"
#include "replay/recorded.h"
#include "replay/schema.h"

typedef unsigned long long ull;

#define KINDS 65536

static const struct argp argp = {
    NULL,       sr_parse_dir_only,
    "DIR.srec", "Say what a trace holds: its ranks, their programs, calls and ends.",
    NULL,       NULL,
    NULL,
};

/* What the streams of a rank hold. */
struct summary {
	uint64_t calls, records, raw_bytes, stored_bytes;
	uint64_t of_kind[KINDS];
	char end[512];
};

static void note_end(struct summary *sum, const struct sr_entry *e)
{
	enum sr_mark reason;
	int32_t status;

	if (sr_entry_exit(e, &status))
		snprintf(sum->end, sizeof(sum->end), "ended with status %d", status);
	else
		sr_entry_mark(e, &reason, sum->end, sizeof(sum->end));
}

static int read_stream(struct sr_trace *t, int32_t rank, uint32_t thread, struct summary *sum)
{
	const struct sr_stream_totals *totals;
	uint16_t last_call = 0;
	struct sr_error err;
	struct sr_stream *s;
	struct sr_entry e;
	int got;

	if (sr_stream_open(&s, t, rank, thread, &err))
		return sr_fail("%s", err.text);
	while ((got = sr_stream_next(s, &e)) > 0) {
		if (e.kind >= SR_REC_CALL)
			last_call = e.kind;
		if (e.kind >= SR_REC_CALL || e.kind == SR_REC_REPEAT) {
			sum->of_kind[last_call] += e.count;
			sum->calls += e.count;
		}
		note_end(sum, &e);
	}
	totals = sr_stream_totals(s);
	sum->records += totals->records;
	sum->raw_bytes += totals->raw_bytes;
	sum->stored_bytes += totals->stored_bytes;
	if (sr_stream_warning(s))
		sr_note("%s", sr_stream_warning(s));
	sr_stream_close(s);
	return got < 0 ? SR_EXIT_FAILED : 0;
}

static void print_calls(const struct summary *sum, const struct sr_schema *schema)
{
	for (size_t kind = SR_REC_CALL; kind < KINDS; kind++)
		if (sum->of_kind[kind])
			printf("  %10llu  %s\n", (ull)sum->of_kind[kind],
			       sr_schema_name(schema, (uint16_t)kind));
}

/* What such a call made is worked on without further calls, so the trace lacks it. */
static void print_direct(const struct summary *sum, const struct sr_schema *schema)
{
	uint64_t calls = 0;

	for (size_t kind = SR_REC_CALL; kind < KINDS; kind++)
		if (sr_schema_is_direct(schema, (uint16_t)kind))
			calls += sum->of_kind[kind];
	if (calls)
		printf(
		    "  not complete: direct verbs were let through (--allow-direct), %llu call%s; "
		    "a replay ends at the first\n",
		    (ull)calls, calls == 1 ? "" : "s");
}

static void print_command(char **argv)
{
	printf("  command:");
	for (; *argv; argv++)
		printf(" %s", *argv);
	putchar('\n');
}

static int print_rank(struct sr_trace *t, const char *dir, int32_t rank)
{
	struct summary *sum = calloc(1, sizeof(*sum));
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, rank, &threads), size;
	const char *text = sr_trace_schema(t, rank, &size);
	struct sr_schema *schema = text ? sr_schema_parse(text, size) : NULL;
	struct sr_recorded r;
	int status = SR_EXIT_FAILED;

	if (!sum || !schema) {
		sr_fail("%s/rank-%d/schema.json: not a schema", dir, rank);
	} else if (sr_recorded_load(&r, t, rank, dir)) {
		snprintf(sum->end, sizeof(sum->end), "no end: still running, or the trace is cut");
		status = 0;
		for (size_t i = 0; i < n && !status; i++)
			status = read_stream(t, rank, threads[i], sum);
		printf("rank %d: %s, %s\n", rank, r.exe, sum->end);
		print_command(r.argv);
		printf("  on %s, Linux %s, process %lld\n",
		       json_string_value(json_object_get(r.json, "hostname")),
		       json_string_value(
			   json_object_get(json_object_get(r.json, "kernel"), "release")),
		       (long long)json_integer_value(json_object_get(r.json, "pid")));
		printf("  %zu thread%s, %llu calls in %llu records, %llu bytes (%llu on disk)\n", n,
		       n == 1 ? "" : "s", (ull)sum->calls, (ull)sum->records, (ull)sum->raw_bytes,
		       (ull)sum->stored_bytes);
		print_direct(sum, schema);
		print_calls(sum, schema);
		sr_recorded_free(&r);
	}
	sr_schema_free(schema);
	free(sum);
	return status;
}

int sr_cmd_info(int argc, char **argv)
{
	const char *dir = NULL;
	struct sr_error err;
	struct sr_trace *t;
	int status = 0;

	if (argp_parse(&argp, argc, argv, 0, NULL, &dir))
		return SR_EXIT_FAILED;
	if (sr_trace_open(&t, dir, &err))
		return sr_fail("%s", err.text);
	printf("%s: trace version %d, %zu rank%s\n", dir, SR_TRACE_VERSION, sr_trace_ranks(t),
	       sr_trace_ranks(t) == 1 ? "" : "s");
	for (size_t i = 0; i < sr_trace_ranks(t) && !status; i++)
		status = print_rank(t, dir, sr_trace_rank_number(t, i));
	sr_trace_close(t);
	return status;
}
