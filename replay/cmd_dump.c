/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_dump.c: `sreplay dump`: a line per record. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/reader.h"
#include "replay/command.h"
#include "replay/marks.h"
#include "replay/schema.h"
#include "shim/call.h"

struct options {
	const char *dir;
	long rank, thread; /* -1: all */
	uint64_t first, last;
	bool json;
};

static const struct argp_option option_list[] = {
    {"rank", 'r', "N", 0, "this rank only", 0},
    {"thread", 't', "N", 0, "this thread only", 0},
    {"sn", 's', "A..B", 0, "calls with these numbers only (A, A.., ..B, A..B)", 0},
    {"json", 'j', NULL, 0, "a JSON object per line, with all bytes of all values", 0},
    {0},
};

static bool parse_range(const char *text, struct options *o)
{
	char *end;
	const char *dots = strstr(text, "..");

	o->first = strtoull(text, &end, 10);
	if (!dots) {
		o->last = o->first;
		return end != text && !*end;
	}
	if (end != dots)
		return false;
	o->last = dots[2] ? strtoull(dots + 2, &end, 10) : UINT64_MAX;
	return !dots[2] || !*end;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'r':
		o->rank = sr_parse_number("--rank", arg);
		return o->rank < 0 ? EINVAL : 0;
	case 't':
		o->thread = sr_parse_number("--thread", arg);
		return o->thread < 0 ? EINVAL : 0;
	case 's':
		if (!parse_range(arg, o))
			argp_error(state, "--sn %s: expected A, A.., ..B or A..B", arg);
		return 0;
	case 'j':
		o->json = true;
		return 0;
	default:
		return sr_parse_dir(key, arg, state, &o->dir);
	}
}

static const struct argp argp = {
    option_list, parse_option, "DIR.srec", "Print the records of a trace, a line each.",
    NULL,        NULL,         NULL,
};

/* ---------------------------------------------------------------- records */

/* Records that are no calls: {"record": name, ...}. */
static json_t *decode_other(const struct sr_entry *e)
{
	char sentence[512];
	enum sr_mark reason;
	uint64_t count;
	int32_t status;

	if (sr_entry_repeat(e, &count))
		return json_pack("{s:s, s:I}", "record", "repeat", "count", (json_int_t)count);
	if (sr_entry_exit(e, &status))
		return json_pack("{s:s, s:i}", "record", "exit", "status", (int)status);
	if (sr_entry_mark(e, &reason, sentence, sizeof(sentence)))
		return json_pack("{s:s, s:i, s:s}", "record", "mark", "reason", (int)reason, "text",
				 sentence);
	return json_pack("{s:s, s:i}", "record", "unknown", "kind", (int)e->kind);
}

static void print_line(const struct sr_schema *schema, const struct sr_entry *e, json_t *v)
{
	json_t *error = json_object_get(v, "errno"), *result = json_object_get(v, "result");

	printf("%8llu  ", (unsigned long long)e->sn);
	if (!result) {
		sr_schema_print(stdout, v);
		putchar('\n');
		return;
	}
	printf("%s(", sr_schema_name(schema, e->kind));
	sr_schema_print(stdout, json_object_get(v, "in"));
	printf(")");
	if (!json_is_null(result)) {
		printf(" = ");
		sr_schema_print(stdout, result);
	}
	if (json_integer_value(result) < 0)
		printf(" errno=%lld", (long long)json_integer_value(error));
	if (json_object_size(json_object_get(v, "out"))) {
		printf("  ");
		sr_schema_print(stdout, json_object_get(v, "out"));
	}
	printf("  @%s\n", json_string_value(json_object_get(v, "site")));
}

static int print_record(const struct options *o, const struct sr_schema *schema, int32_t rank,
			uint32_t thread, const struct sr_entry *e)
{
	json_t *v = e->kind >= SR_REC_CALL ? sr_schema_decode(schema, e->kind, e->payload, e->size)
					   : decode_other(e);

	if (!v)
		return sr_fail(
		    "rank %d thread %u SN %llu: the record does not fit the trace's schema", rank,
		    thread, (unsigned long long)e->sn);
	if (!o->json) {
		print_line(schema, e, v);
	} else {
		json_object_set_new(v, "rank", json_integer(rank));
		json_object_set_new(v, "thread", json_integer(thread));
		json_object_set_new(v, "sn", json_integer((json_int_t)e->sn));
		if (e->kind >= SR_REC_CALL)
			json_object_set_new(v, "call",
					    json_string(sr_schema_name(schema, e->kind)));
		json_dumpf(v, stdout, JSON_COMPACT);
		putchar('\n');
	}
	json_decref(v);
	return 0;
}

static int dump_stream(const struct options *o, struct sr_trace *t, const struct sr_schema *schema,
		       int32_t rank, uint32_t thread)
{
	struct sr_error err;
	struct sr_stream *s;
	struct sr_entry e;
	int got, status = 0;

	if (sr_stream_open(&s, t, rank, thread, &err))
		return sr_fail("%s", err.text);
	if (!o->json)
		printf("rank %d thread %u\n", rank, thread);
	if (o->first && (got = sr_stream_seek(s, o->first)) && got != -ENOENT)
		status = sr_fail("%s", sr_stream_warning(s));
	while (!status && (got = sr_stream_next(s, &e)) > 0) {
		if (e.sn > o->last)
			break;
		status = print_record(o, schema, rank, thread, &e);
	}
	if (sr_stream_warning(s))
		sr_note("%s", sr_stream_warning(s));
	if (!status && got < 0)
		status = SR_EXIT_FAILED;
	sr_stream_close(s);
	return status;
}

static int dump_rank(const struct options *o, struct sr_trace *t, int32_t rank)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, rank, &threads), size;
	const char *text = sr_trace_schema(t, rank, &size);
	struct sr_schema *schema = text ? sr_schema_parse(text, size) : NULL;
	int status = 0;

	if (!schema)
		return sr_fail("%s/rank-%d/schema.json: not a schema", o->dir, rank);
	for (size_t i = 0; i < n && !status; i++)
		if (o->thread < 0 || o->thread == (long)threads[i])
			status = dump_stream(o, t, schema, rank, threads[i]);
	sr_schema_free(schema);
	return status;
}

int sr_cmd_dump(int argc, char **argv)
{
	struct options o = {.rank = -1, .thread = -1, .last = UINT64_MAX};
	struct sr_error err;
	struct sr_trace *t;
	int status = 0;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return SR_EXIT_FAILED;
	if (sr_trace_open(&t, o.dir, &err))
		return sr_fail("%s", err.text);
	if (o.rank >= 0 && !sr_trace_process(t, (int32_t)o.rank))
		status = sr_fail("%s has no rank %ld", o.dir, o.rank);
	for (size_t i = 0; i < sr_trace_ranks(t) && !status; i++)
		if (o.rank < 0 || o.rank == sr_trace_rank_number(t, i))
			status = dump_rank(&o, t, sr_trace_rank_number(t, i));
	sr_trace_close(t);
	return status;
}
