/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_collect.c: `sreplay collect`: merges the traces that a job left on its nodes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/sizes.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/print/json.h"
#include "replay/print/progress.h"
#include "replay/traces/copy.h"

struct options {
	const char *output;
	char **traces;
	int count;
	bool json;
	bool quiet;
};

/* Of all traces: bytes to copy, and copied. */
static struct {
	sr_progress show;
	uint64_t size, done;
} progress;

static const struct argp_option option_list[] = {
    {"output", 'o', "DIR.srec", 0, "the trace to make, or to add to", 0},
    {"quiet", 'q', NULL, 0, "no progress bar", 0},
    SR_JSON_OPTION,
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'o':
		o->output = arg;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARGS:
		o->traces = state->argv + state->next;
		o->count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no traces to collect");
		return EINVAL;
	case ARGP_KEY_END:
		if (!o->output)
			argp_error(state, "--output is missing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec...",
    "Bring the traces that the nodes of one job wrote together in one. Each rank may be in one of "
    "them only. Nothing is taken out of them.",
    NULL,
    NULL,
    NULL,
};

static int copy_ranks(const struct options *o, struct sr_trace *t, const char *dir, int from,
		      int to)
{
	for (size_t i = 0; i < sr_trace_ranks(t); i++) {
		int32_t rank = sr_trace_rank_number(t, i);
		char bad[NAME_MAX + 1] = "";
		int err = sr_copy_rank(from, to, rank, bad);

		if (err == -EEXIST)
			return sr_fail("%s: rank %d is in %s already", dir, rank, o->output);
		if (err)
			return sr_fail("%s: rank %d cannot be copied: %s%s%s", dir, rank, bad,
				       bad[0] ? ": " : "", sr_copy_reason(err));
	}
	return 0;
}

static void print_collected(const struct options *o, const char *dir, size_t ranks)
{
	sr_progress_hide();
	if (o->json)
		sr_json_print(json_pack("{s:o, s:I, s:o}", "trace", sr_json_string(dir), "ranks",
					(json_int_t)ranks, "output", sr_json_string(o->output)));
	else
		printf("%s: %zu rank%s\n", dir, ranks, ranks == 1 ? "" : "s");
}

static int collect(const struct options *o, const char *dir, int to)
{
	struct sr_trace *t;
	struct sr_error error;
	int from, status, err = sr_trace_open(&t, dir, &error);

	if (err)
		return sr_fail("%s", error.text);
	from = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = from < 0 ? -errno : sr_copy_manifest(from, to);
	status = err ? sr_fail("%s: %s", dir, sr_copy_reason(err)) : sr_copy_kept_files(dir, from, to);
	if (!status)
		status = copy_ranks(o, t, dir, from, to);
	if (!status)
		print_collected(o, dir, sr_trace_ranks(t));
	if (from >= 0)
		close(from);
	sr_trace_close(t);
	return status;
}

/* Of streams and kept files; the others are small. */
static uint64_t size_of(const char *dir)
{
	struct sr_trace *t;
	uint64_t bytes;
	char path[PATH_MAX];
	struct dirent *e;
	struct stat st;
	DIR *kept;

	if (sr_trace_open(&t, dir, NULL))
		return 0;
	bytes = sr_stream_bytes(t, -1);
	sr_trace_close(t);
	snprintf(path, sizeof(path), "%s/files", dir);
	kept = opendir(path);
	while (kept && (e = readdir(kept)))
		if (!fstatat(dirfd(kept), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
	if (kept)
		closedir(kept);
	return bytes;
}

static void show_copied(uint64_t bytes)
{
	progress.done += bytes;
	progress.show((double)progress.done / (double)progress.size);
}

static void begin_progress(const struct options *o)
{
	for (int i = 0; i < o->count && !o->quiet; i++)
		progress.size += size_of(o->traces[i]);
	progress.show = sr_progress_begin("copying", progress.size, o->quiet);
	sr_copy_progress = progress.show && progress.size ? show_copied : NULL;
}

int sr_cmd_collect(int argc, char **argv)
{
	struct options o = {0};
	int to, status = 0;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	if (mkdir(o.output, SR_COPY_DIR_MODE) && errno != EEXIST)
		return sr_fail("cannot make %s: %s", o.output, strerror(errno));
	to = open(o.output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to < 0)
		return sr_fail("%s: %s", o.output, strerror(errno));
	begin_progress(&o);
	for (int i = 0; i < o.count && !status; i++)
		status = collect(&o, o.traces[i], to);
	sr_progress_end();
	close(to);
	return status;
}
