/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_verify.c: `sreplay verify`: reads a whole trace, with every checksum and count. */
#include <stdio.h>

#include "logd/reader.h"
#include "replay/command.h"

typedef unsigned long long ull;

static const struct argp argp = {
    NULL,
    sr_parse_dir_only,
    "DIR.srec",
    "Check every checksum and count of a trace. Exit status: 0 if all is well, 1 if a stream is "
    "cut or "
    "damaged.",
    NULL,
    NULL,
    NULL,
};

/* 0, or 1 after a message. */
static int verify_stream(struct sr_trace *t, int32_t rank, uint32_t thread)
{
	const struct sr_stream_totals *totals;
	struct sr_error err;
	struct sr_stream *s;
	struct sr_entry e;
	int got, bad;

	if (sr_stream_open(&s, t, rank, thread, &err)) {
		sr_fail("%s", err.text);
		return 1;
	}
	do
		got = sr_stream_next(s, &e);
	while (got > 0);
	totals = sr_stream_totals(s);
	bad = got < 0 || sr_stream_warning(s);
	printf("rank %d thread %u: %s, %llu frames, %llu records, %llu calls, %llu bytes (%llu on "
	       "disk)\n",
	       rank, thread,
	       got < 0 ? "damaged"
	       : bad   ? "cut"
		       : "whole",
	       (ull)totals->frames, (ull)totals->records, (ull)totals->sns, (ull)totals->raw_bytes,
	       (ull)totals->stored_bytes);
	if (bad)
		sr_note("%s", sr_stream_warning(s));
	sr_stream_close(s);
	return bad;
}

int sr_cmd_verify(int argc, char **argv)
{
	const char *dir = NULL;
	const uint32_t *threads;
	struct sr_error err;
	struct sr_trace *t;
	int status = 0;

	if (argp_parse(&argp, argc, argv, 0, NULL, &dir))
		return SR_EXIT_FAILED;
	if (sr_trace_open(&t, dir, &err))
		return sr_fail("%s", err.text);
	for (size_t i = 0; i < sr_trace_ranks(t); i++) {
		int32_t rank = sr_trace_rank_number(t, i);
		size_t n = sr_trace_threads(t, rank, &threads);

		for (size_t j = 0; j < n; j++)
			status |= verify_stream(t, rank, threads[j]);
	}
	sr_trace_close(t);
	return status;
}
