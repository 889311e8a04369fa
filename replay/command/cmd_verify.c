/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_verify.c: `sreplay verify`: reads a whole trace, with every checksum and count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/sizes.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/command/visit.h"
#include "replay/print/json.h"
#include "replay/print/marks.h"
#include "replay/print/progress.h"

typedef unsigned long long ull;

struct result {
	struct sr_choice choice;
	bool quiet;
	uint32_t image;    /* of the rank that is read */
	const char *child; /* likewise; NULL: it is none */
	bool missing;   /* a stream */
	sr_progress progress;
	uint64_t size, read; /* bytes of all streams, and of those before */
};

static const struct argp_option option_list[] = {
    {"quiet", 'q', NULL, 0, "no progress bar", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct result *r = state->input;

	if (key == 'q')
		r->quiet = true;
	else if (key == ARGP_KEY_INIT)
		state->child_inputs[0] = &r->choice;
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

static const struct argp_child children[] = {{&sr_choice_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    option_list,
    parse_option,
    NULL,
    "Check every checksum and count of a trace. Exit status: 0 if all is well, 1 if a stream is "
    "cut, damaged or missing, has no end, or was stopped (a full disk).",
    children,
    NULL,
    NULL,
};

/* What one stream says of its end. */
struct found {
	bool stopped;     /* the recording ended before the thread */
	uint64_t dropped; /* records */
};

static void note_mark(struct found *f, const struct sr_entry *e)
{
	struct sr_mark_payload mark;

	if (e->kind != SR_REC_MARK || e->size < sizeof(mark))
		return;
	memcpy(&mark, e->payload, sizeof(mark));
	f->stopped = f->stopped || mark.reason == SR_MARK_STOPPED;
	if (mark.reason == SR_MARK_DROPPED)
		f->dropped += mark.argument;
}

static const char *verdict(int got, const struct sr_stream *s, const struct found *f)
{
	if (got < 0)
		return "damaged";
	if (sr_stream_warning(s))
		return "cut";
	if (f->stopped)
		return "stopped";
	return sr_stream_ended(s) ? "whole" : "without an end";
}

/* What is lost, a line each, with the cause as far as the stream has it. */
static void say_what_is_lost(const struct found *f, const struct sr_entry *last, const char *rank,
			     uint32_t thread)
{
	enum sr_mark reason;
	char sentence[512];

	if (f->dropped)
		sr_note("rank %s thread %u lacks %llu records, dropped because sreplay-logd could "
			"not keep up (--lossy)",
			rank, thread, (ull)f->dropped);
	if (f->stopped && sr_entry_mark(last, &reason, sentence, sizeof(sentence)))
		sr_note("rank %s thread %u lacks its last calls: %s", rank, thread, sentence);
}

static void print_text(struct sr_stream *s, uint32_t thread, const char *how, const struct found *f)
{
	const struct sr_stream_totals *totals = sr_stream_totals(s);

	printf("rank %s thread %u: %s%s, %llu frames, %llu records, %llu calls, %llu bytes (%llu "
	       "on disk)\n",
	       sr_stream_rank_label(s), thread, how, f->dropped ? " with holes" : "",
	       (ull)totals->frames, (ull)totals->records, (ull)totals->sns, (ull)totals->raw_bytes,
	       (ull)totals->stored_bytes);
}

static void print_json(struct sr_stream *s, int32_t rank, const struct result *r, uint32_t thread,
		       const char *how, const struct found *f)
{
	const struct sr_stream_totals *totals = sr_stream_totals(s);

	sr_json_print(json_pack(
	    "{s:i, s:s*, s:i, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "rank", rank, "child", r->child,
	    "image", (int)r->image, "thread", (int)thread, "verdict", how, "dropped", (json_int_t)f->dropped, "frames",
	    (json_int_t)totals->frames, "records", (json_int_t)totals->records, "calls",
	    (json_int_t)totals->sns, "bytes", (json_int_t)totals->raw_bytes, "bytes_on_disk",
	    (json_int_t)totals->stored_bytes, "warning", sr_json_string(sr_stream_warning(s))));
}

static int verify_stream(void *argument, struct sr_stream *s, int32_t rank, uint32_t thread)
{
	struct result *r = argument;
	struct found f = {0};
	struct sr_entry e = {0};
	uint64_t at = 0;
	bool whole;
	int got;

	sr_stream_fold_cycles(s);
	while ((got = sr_stream_next(s, &e)) > 0) {
		note_mark(&f, &e);
		if (r->progress && e.offset != at) {
			at = e.offset;
			r->progress((double)(r->read + at) / (double)r->size);
		}
	}
	r->read += sr_stream_size(s);
	sr_progress_hide();
	whole = !got && !sr_stream_warning(s);
	if (r->choice.json)
		print_json(s, rank, r, thread, verdict(got, s, &f), &f);
	else
		print_text(s, thread, verdict(got, s, &f), &f);
	if (whole)
		say_what_is_lost(&f, &e, sr_stream_rank_label(s), thread);
	if (whole && !sr_stream_ended(s))
		sr_note("rank %s thread %u has no end: it is still being recorded, or its process "
			"and sreplay-logd were both killed and its last calls are lost",
			sr_stream_rank_label(s), thread);
	return !whole || !sr_stream_ended(s) || f.stopped;
}

/* The daemon lists each stream that it begins. */
static int verify_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	struct result *r = argument;
	const uint32_t *there;
	uint32_t *listed;
	size_t n = sr_trace_threads(t, rank, &there), listed_n, missing = 0;
	struct sr_error err;

	r->image = sr_trace_image(t, rank);
	r->child = sr_trace_child(t, rank);
	if (sr_trace_listed_threads(t, rank, &listed, &listed_n, &err))
		return sr_fail("%s", err.text);
	for (size_t i = 0, at = 0; i < listed_n; i++) {
		while (at < n && there[at] < listed[i])
			at++;
		if (at < n && there[at] == listed[i])
			continue;
		missing++;
		sr_note("rank %s thread %u: its file thread-%u.srs is missing",
			sr_trace_rank_label(t, rank), listed[i], listed[i]);
		if (r->choice.json)
			sr_json_print(json_pack("{s:i, s:i, s:i, s:s}", "rank", rank, "image",
						(int)r->image, "thread", (int)listed[i], "verdict",
						"missing"));
	}
	if (!n && !missing)
		sr_note("rank %s has no thread: nothing is recorded of it, or its files are gone",
			sr_trace_rank_label(t, rank));
	free(listed);
	r->missing |= missing || !n;
	return 0;
}

static void begin(void *argument, struct sr_trace *t)
{
	struct result *r = argument;

	r->size = sr_stream_bytes(t, r->choice.rank);
	r->progress = sr_progress_begin("verifying", r->size, r->quiet);
}

int sr_cmd_verify(int argc, char **argv)
{
	static const struct sr_visitor visitor = {
	    .trace = begin, .rank = verify_rank, .stream = verify_stream, .thread = -1, .children = true, .cannot_open = 1};
	struct result result = {.choice = SR_CHOICE_INIT};
	int status;

	if (sr_argp_parse(&argp, argc, argv, 0, &result))
		return SR_EXIT_FAILED;
	status = sr_visit(&result.choice, &visitor, &result);
	sr_progress_end();
	return status || !result.missing ? status : 1;
}
