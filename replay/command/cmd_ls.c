/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_ls.c: `sreplay ls`: the traces of a directory, the newest first. */
#include <argp.h>
#include <fts.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "logd/trace/reader.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/command/traces.h"
#include "replay/print/json.h"

struct options {
	bool json;
};

static const struct argp_option option_list[] = {
    SR_JSON_OPTION,
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	if (key != 'j')
		return ARGP_ERR_UNKNOWN;
	o->json = true;
	return 0;
}

static const struct argp argp = {
    option_list,
    parse_option,
    NULL,
    "List the traces in $SREPLAY_TRACE_DIR, or else in the current directory: when their recording "
    "began, how many ranks they have, their size, and the command of the first rank.",
    NULL,
    NULL,
    NULL,
};

static uint64_t size_of(char *path)
{
	char *paths[] = {path, NULL};
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	uint64_t size = 0;
	FTSENT *e;

	while (walk && (e = fts_read(walk)))
		size += e->fts_info == FTS_F ? (uint64_t)e->fts_statp->st_size : 0;
	if (walk)
		fts_close(walk);
	return size;
}

static char *command_of(const struct sr_trace *t)
{
	const json_t *process = sr_trace_process(t, sr_trace_rank_number(t, 0));
	const json_t *arguments = json_object_get(process, "arguments");
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; out && i < json_array_size(arguments); i++) {
		char *word = sr_trace_bytes(json_array_get(arguments, i), NULL);

		fprintf(out, "%s%s", i ? " " : "", word ? word : "?");
		free(word);
	}
	return out && !fclose(out) ? text : NULL;
}

static void print_json(const struct sr_trace_found *f, size_t ranks, uint64_t size,
		       const char *began, const char *command)
{
	sr_json_print(json_pack("{s:o, s:s, s:I, s:I, s:o}", "trace", sr_json_string(f->path), "began", began,
				"ranks", (json_int_t)ranks, "bytes", (json_int_t)size, "command",
				sr_json_string(command)));
}

static int print_trace(const struct options *o, const struct sr_trace_found *f)
{
	time_t seconds = f->began / 1000000000;
	uint64_t size = size_of(f->path);
	char began[32] = "", *command;
	struct sr_trace *t;
	struct sr_error err;
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(began, sizeof(began), o->json ? "%FT%T%z" : "%F %T", &tm);
	if (sr_trace_open(&t, f->path, &err)) {
		sr_note("%s", err.text);
		return 1;
	}
	command = command_of(t);
	if (o->json)
		print_json(f, sr_trace_ranks(t), size, began, command ? command : "");
	else
		printf("%-24s %s %4zu %10llu  %s\n", f->path, began, sr_trace_ranks(t),
		       (unsigned long long)size, command ? command : "");
	free(command);
	sr_trace_close(t);
	return 0;
}

int sr_cmd_ls(int argc, char **argv)
{
	struct options o = {0};
	struct sr_trace_found *list;
	size_t n;
	int status = 0, err;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	err = sr_traces_list(&list, &n);
	if (err)
		return sr_fail("cannot read %s: %s", sr_traces_dir(), strerror(-err));
	if (n && !o.json)
		printf("%-24s %-19s %4s %10s  %s\n", "TRACE", "BEGAN", "RANKS", "BYTES", "COMMAND");
	for (size_t i = 0; i < n; i++)
		status |= print_trace(&o, &list[i]);
	sr_traces_free(list, n);
	return status;
}
