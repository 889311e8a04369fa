/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_ps.c: `sreplay ps`: the processes of a trace, a line each. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/command/visit.h"
#include "replay/print/json.h"
#include "replay/print/marks.h"

struct ps {
	struct sr_choice choice;
	bool has_head; /* it is printed */
	/* Of this rank: */
	unsigned int threads;
	bool has_status;
	int32_t status;
	bool has_end; /* without a status: a mark says why */
};

static const struct argp_child children[] = {{&sr_choice_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    NULL,
    sr_parse_choice_only,
    NULL,
    "List the recorded processes: rank, process number, host, threads, exit status and command.",
    children,
    NULL,
    NULL,
};

static void print_head(struct ps *p)
{
	if (!p->choice.json && !p->has_head)
		printf("%4s %8s %-12s %7s %6s  %s\n", "RANK", "PROCESS", "HOST", "THREADS",
		       "STATUS", "COMMAND");
	p->has_head = true;
}

static int begin_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	struct ps *p = argument;

	print_head(p);
	p->threads = 0;
	p->has_status = p->has_end = false;
	return 0;
}

static int read_stream(void *argument, struct sr_stream *s, int32_t rank, uint32_t thread)
{
	struct ps *p = argument;
	enum sr_mark reason;
	char sentence[512];
	struct sr_entry e;
	int got;

	p->threads++;
	sr_stream_fold_cycles(s);
	while ((got = sr_stream_next(s, &e)) > 0) {
		if (sr_entry_exit(&e, &p->status))
			p->has_status = true;
		else if (sr_entry_mark(&e, &reason, sentence, sizeof(sentence)))
			p->has_end |= reason != SR_MARK_ENDED && reason != SR_MARK_DROPPED;
	}
	return got < 0 ? SR_EXIT_FAILED : 0;
}

static void print_json(const struct ps *p, const json_t *process, int32_t rank)
{
	json_t *line = json_pack("{s:i, s:O?, s:O?, s:i, s:O?, s:o, s:b}", "rank", rank, "pid",
				 json_object_get(process, "pid"), "host",
				 json_object_get(process, "hostname"), "threads", (int)p->threads,
				 "arguments", json_object_get(process, "arguments"), "status",
				 p->has_status ? json_integer(p->status) : json_null(), "cut",
				 p->has_end || !p->has_status);

	sr_json_print(line);
}

static int end_rank(void *argument, struct sr_trace *t, int32_t rank)
{
	const struct ps *p = argument;
	const json_t *process = sr_trace_process(t, rank);
	const json_t *arguments = json_object_get(process, "arguments");
	const char *host = json_string_value(json_object_get(process, "hostname"));
	char status[16] = "-";

	if (p->choice.json) {
		print_json(p, process, rank);
		return 0;
	}
	if (p->has_status)
		snprintf(status, sizeof(status), "%d", p->status);
	else if (p->has_end)
		snprintf(status, sizeof(status), "cut");
	printf("%4d %8lld %-12s %7u %6s ", rank,
	       (long long)json_integer_value(json_object_get(process, "pid")), host ? host : "",
	       p->threads, status);
	for (size_t i = 0; i < json_array_size(arguments); i++) {
		char *word = sr_trace_bytes(json_array_get(arguments, i), NULL);

		printf(" %s", word ? word : "?");
		free(word);
	}
	putchar('\n');
	return 0;
}

int sr_cmd_ps(int argc, char **argv)
{
	static const struct sr_visitor visitor = {.rank = begin_rank,
						  .stream = read_stream,
						  .rank_end = end_rank,
						  .thread = -1,
						  .cannot_open = SR_EXIT_FAILED};
	struct ps p = {.choice = SR_CHOICE_INIT};

	if (sr_argp_parse(&argp, argc, argv, 0, &p.choice))
		return SR_EXIT_FAILED;
	return sr_visit(&p.choice, &visitor, &p);
}
