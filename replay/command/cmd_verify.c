/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_verify.c: `sreplay verify`: reads a whole trace, with every checksum and count. */
#include <stdio.h>

#include "replay/command/command.h"
#include "replay/command/visit.h"

typedef unsigned long long ull;

static const struct argp_child children[] = {{&sr_choice_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    NULL,
    sr_parse_choice_only,
    NULL,
    "Check every checksum and count of a trace. Exit status: 0 if all is well, 1 if a stream is "
    "cut or damaged, or has no end.",
    children,
    NULL,
    NULL,
};

static const char *verdict(int got, const struct sr_stream *s)
{
	if (got < 0)
		return "damaged";
	if (sr_stream_warning(s))
		return "cut";
	return sr_stream_ended(s) ? "whole" : "without an end";
}

static int verify_stream(void *argument, struct sr_stream *s, int32_t rank, uint32_t thread)
{
	const struct sr_stream_totals *totals = sr_stream_totals(s);
	struct sr_entry e;
	int got;

	do
		got = sr_stream_next(s, &e);
	while (got > 0);
	printf("rank %d thread %u: %s, %llu frames, %llu records, %llu calls, %llu bytes (%llu on "
	       "disk)\n",
	       rank, thread, verdict(got, s), (ull)totals->frames, (ull)totals->records,
	       (ull)totals->sns, (ull)totals->raw_bytes, (ull)totals->stored_bytes);
	if (!got && !sr_stream_warning(s) && !sr_stream_ended(s))
		sr_note("rank %d thread %u has no end: it is still being recorded, or its process "
			"and sreplay-logd were both killed and its last calls are lost",
			rank, thread);
	return got < 0 || sr_stream_warning(s) || !sr_stream_ended(s);
}

int sr_cmd_verify(int argc, char **argv)
{
	static const struct sr_visitor visitor = {
	    .stream = verify_stream, .thread = -1, .cannot_open = 1};
	struct sr_choice choice = SR_CHOICE_INIT;

	if (argp_parse(&argp, argc, argv, 0, NULL, &choice))
		return SR_EXIT_FAILED;
	return sr_visit(&choice, &visitor, NULL);
}
