/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/command.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/reader.h"
#include "replay/command/traces.h"

error_t sr_parse_trace(int key, char *arg, struct argp_state *state, const char **dir)
{
	if (key == ARGP_KEY_ARG && !*dir)
		*dir = sr_traces_find(arg);
	else if (key == ARGP_KEY_ARG)
		argp_usage(state);
	else if (key == ARGP_KEY_END && !*dir)
		*dir = sr_traces_find(NULL);
	else if (key != ARGP_KEY_END)
		return ARGP_ERR_UNKNOWN;
	return *dir ? 0 : EINVAL;
}

error_t sr_parse_trace_options(int key, char *arg, struct argp_state *state, struct sr_trace_options *o)
{
	switch (key) {
	case 'g':
		o->group = arg;
		return 0;
	case 'o':
		o->out = arg;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	default:
		return sr_parse_trace(key, arg, state, &o->dir);
	}
}

FILE *sr_output_open(const char *path)
{
	FILE *out = path ? fopen(path, "w") : stdout;

	if (!out)
		sr_fail("cannot write %s: %s", path, strerror(errno));
	return out;
}

int sr_output_close(FILE *out, const char *path, int status)
{
	if (path && (ferror(out) | fclose(out)) && !status)
		return sr_fail("cannot write %s: %s: it is not complete", path, strerror(errno));
	return status;
}

long sr_parse_number(const char *option, const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < 0 || value > INT_MAX) {
		sr_fail("%s %s: expected a number from 0 on", option, text);
		return -1;
	}
	return value;
}

void sr_note_what_sums_lack(const struct sr_trace *t, const char *dir)
{
	size_t n = sr_trace_ranks(t);

	for (size_t i = 0; i < n; i++) {
		if (!sr_trace_has_sums(t, sr_trace_rank_number(t, i)))
			continue;
		sr_note("%s has only sums of the addresses and lengths of requests (record --order), so less is known of what goes "
			"where: sreplay replay --record-ranks %d-%d -o DETAIL.srec %s makes a trace with all of them",
			dir, sr_trace_rank_number(t, 0), sr_trace_rank_number(t, n - 1), dir);
		return;
	}
}
