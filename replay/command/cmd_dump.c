/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_dump.c: `sreplay dump`: a line per record. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nicclock/order_code.h"
#include "replay/analysis/log/stamps.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/print/json.h"
#include "replay/print/names.h"
#include "replay/print/print.h"
#include "replay/command/visit.h"

struct options {
	struct sr_choice choice;
	long thread; /* -1: all */
	uint64_t first, last;
	bool plain;           /* no names for sites */
	struct sr_print with; /* of the rank that is printed */
	/*
	 * Clocks are stored as differences: they are known if the stream was read from its
	 * beginning.
	 */
	struct sr_order_stream clock;
	bool clock_known;
	struct sr_stamps stamps;
	long image;       /* that is printed; -1: the rank has only one */
	uint64_t printed; /* records */
};

static const struct argp_option option_list[] = {
    {"thread", 't', "N", 0, "this thread only", 0},
    {"sn", 's', "A..B", 0, "calls with these numbers only (A, A.., ..B, A..B)", 0},
    {"addresses", 'a', NULL, 0, "call sites as addresses only, without names and lines", 0},
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
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->choice;
		return 0;
	case 't':
		o->thread = sr_parse_number("--thread", arg);
		return o->thread < 0 ? EINVAL : 0;
	case 's':
		if (!parse_range(arg, o))
			argp_error(state, "--sn %s: expected A, A.., ..B or A..B", arg);
		return 0;
	case 'a':
		o->plain = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {{&sr_choice_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    option_list, parse_option, NULL, "Print the records of a trace, a line each, with --json all bytes of all values.",
    children,    NULL,         NULL,
};

static json_t *decode_clock(struct options *o, const struct sr_entry *e)
{
	json_t *orders = json_array();
	struct sr_order order;
	uint32_t size = (uint32_t)e->size, at;
	int n;

	if (!o->clock_known)
		return json_pack("{s:s, s:o}", "record", sr_record_name(SR_REC_CLOCK), "after", orders);
	n = sr_order_decode_event(&o->clock, e->payload, size);
	for (at = 0; n > 0;
	     n = sr_order_decode(&o->clock, (const uint8_t *)e->payload + at, size - at, &order)) {
		if (at)
			json_array_append_new(
			    orders, order.via == SR_ORDER_SHORT
					? json_pack("{s:b}", "missed", 1)
					: json_pack("{s:i, s:I, s:s}", "member", order.member,
						    "event", (json_int_t)order.event, "by",
						    order.via == SR_ORDER_OWN ? "cpu" : "post"));
		at += (uint32_t)n;
	}
	return json_pack("{s:s, s:I, s:o}", "record", sr_record_name(SR_REC_CLOCK), "event", (json_int_t)o->clock.event,
			 "after", orders);
}

static void print_json(const struct options *o, int32_t rank, uint32_t thread,
		       const struct sr_entry *e, json_t *v)
{
	json_object_set_new(v, "rank", json_integer(rank));
	if (o->image >= 0)
		json_object_set_new(v, "image", json_integer(o->image));
	json_object_set_new(v, "thread", json_integer(thread));
	json_object_set_new(v, "sn", json_integer((json_int_t)e->sn));
	if (o->stamps.time)
		json_object_set_new(v, "time", sr_json_count(o->stamps.time));
	sr_json_print(json_incref(v));
}

/* In front of the line: the time of day. */
static void print_time(const struct sr_stamps *s)
{
	time_t seconds = (time_t)(s->time / 1000000000);
	struct tm tm;
	char text[16];

	if (!s->time || !localtime_r(&seconds, &tm))
		return;
	strftime(text, sizeof(text), "%T", &tm);
	printf("%s.%06u ", text, (unsigned int)(s->time % 1000000000 / 1000));
}

static int print_record(struct options *o, struct sr_stream *s, int32_t rank, uint32_t thread, const struct sr_entry *e)
{
	json_t *v = e->kind == SR_REC_CLOCK ? decode_clock(o, e) : sr_print_decode(&o->with, e);

	if (!v)
		return sr_fail(
		    "rank %s thread %u SN %llu: the record does not fit the trace's schema", sr_stream_rank_label(s),
		    thread, (unsigned long long)e->sn);
	if (o->choice.json) {
		print_json(o, rank, thread, e, v);
	} else {
		print_time(&o->stamps);
		sr_print_line(stdout, &o->with, e, v);
	}
	json_decref(v);
	return 0;
}

static int dump_stream(void *argument, struct sr_stream *s, int32_t rank, uint32_t thread)
{
	struct options *o = argument;
	struct sr_entry e;
	int got = 0, status = 0;

	o->clock = (struct sr_order_stream){0};
	o->clock_known = !o->first;
	o->stamps = (struct sr_stamps){0};

	if (!o->choice.json)
		printf("rank %s thread %u\n", sr_stream_rank_label(s), thread);
	/* -ENOENT: the stream ends before; -EBADMSG: the reader's warning says it. */
	if (o->first && (got = sr_stream_seek(s, o->first)))
		return got == -ENOENT ? 0 : SR_EXIT_FAILED;
	while (!status && (got = sr_stream_next(s, &e)) > 0) {
		if (e.sn > o->last)
			break;
		if (sr_stamps_take(&o->stamps, &e))
			continue;
		status = print_record(o, s, rank, thread, &e);
		o->printed++;
	}
	return !status && got < 0 ? SR_EXIT_FAILED : status;
}

static int begin_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	struct options *o = argument;
	const json_t *process = sr_trace_process(t, rank);
	struct sr_error err;

	o->image = sr_trace_images(t, rank) > 1 ? (long)sr_trace_image(t, rank) : -1;
	o->with.schema = sr_schema_of(t, rank, &err);
	if (!o->with.schema)
		return sr_fail("%s", err.text);
	o->with.symbols = o->plain ? NULL : sr_symbols_new(json_object_get(process, "objects"));
	return 0;
}

static int end_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	struct options *o = argument;

	sr_schema_free(o->with.schema);
	sr_symbols_free(o->with.symbols);
	return 0;
}

int sr_cmd_dump(int argc, char **argv)
{
	struct options o = {.choice = SR_CHOICE_INIT, .thread = -1, .last = UINT64_MAX};
	struct sr_visitor visitor = {.rank = begin_rank,
				     .stream = dump_stream,
				     .rank_end = end_rank,
				     .cannot_open = SR_EXIT_FAILED};
	int status;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	visitor.thread = o.thread;
	status = sr_visit(&o.choice, &visitor, &o);
	if (!status && !o.printed && (o.first || o.last != UINT64_MAX))
		return sr_fail("%s has no call with such a number", o.choice.dir);
	return status;
}
