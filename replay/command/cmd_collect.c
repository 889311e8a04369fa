/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_collect.c: `sreplay collect`: merges the traces that a job left on its nodes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/reader.h"
#include "replay/command/command.h"
#include "replay/command/visit.h"

struct options {
	const char *output;
	char **traces;
	int count;
};

static const struct argp_option option_list[] = {
    {"output", 'o', "DIR.srec", 0, "the trace to make, or to add to", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'o':
		o->output = arg;
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

/* -errno. */
static int copy_bytes(int from, int to)
{
	ssize_t n;

	while ((n = sendfile(to, from, NULL, 1 << 20)) > 0)
		;
	return n < 0 ? -errno : 0;
}

static int copy_file(int from_dir, int to_dir, const char *name)
{
	int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC), to, err;

	if (from < 0)
		return -errno;
	to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	err = to < 0 ? -errno : copy_bytes(from, to);
	if (to >= 0 && close(to) && !err)
		err = -errno;
	close(from);
	return err;
}

/* A rank's directory has only files. */
static int copy_files(int from_dir, int to_dir)
{
	DIR *list = fdopendir(dup(from_dir));
	struct dirent *entry;
	int err = list ? 0 : -errno;

	while (!err && (entry = readdir(list)))
		if (entry->d_name[0] != '.') /* drafts are no part of a trace */
			err = copy_file(from_dir, to_dir, entry->d_name);
	if (list)
		closedir(list);
	return err;
}

/* The result appears complete under its name, or not at all. */
static int copy_rank(int from_trace, int to_trace, int32_t rank)
{
	char name[32], draft[48];
	int from, to, err;

	snprintf(name, sizeof(name), "rank-%d", rank);
	snprintf(draft, sizeof(draft), ".%s.%d", name, (int)getpid());
	from = openat(from_trace, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0)
		return -errno;
	if (mkdirat(to_trace, draft, 0777)) {
		err = -errno;
		close(from);
		return err;
	}
	to = openat(to_trace, draft, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = to < 0 ? -errno : copy_files(from, to);
	/* An existing directory is only replaced if it is empty. */
	if (!err && renameat(to_trace, draft, to_trace, name))
		err = errno == ENOTEMPTY ? -EEXIST : -errno;
	if (to >= 0)
		close(to);
	close(from);
	return err;
}

static int copy_ranks(const struct options *o, struct sr_trace *t, const char *dir, int from,
		      int to)
{
	for (size_t i = 0; i < sr_trace_ranks(t); i++) {
		int32_t rank = sr_trace_rank_number(t, i);
		int err = copy_rank(from, to, rank);

		if (err == -EEXIST)
			return sr_fail("%s: rank %d is in %s already", dir, rank, o->output);
		if (err)
			return sr_fail("%s: rank %d cannot be copied: %s", dir, rank,
				       strerror(-err));
	}
	printf("%s: %zu ranks\n", dir, sr_trace_ranks(t));
	return 0;
}

/* The manifests of traces that this sreplay reads are all alike. */
static int copy_manifest(int from, int to)
{
	int err = copy_file(from, to, "manifest.json");

	return err == -EEXIST ? 0 : err;
}

static int collect(const struct options *o, const char *dir, int to)
{
	struct sr_trace *t;
	struct sr_error error;
	int from, status, err = sr_trace_open(&t, dir, &error);

	if (err)
		return sr_fail("%s", error.text);
	from = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = from < 0 ? -errno : copy_manifest(from, to);
	status = err ? sr_fail("%s: %s", dir, strerror(-err)) : copy_ranks(o, t, dir, from, to);
	if (from >= 0)
		close(from);
	sr_trace_close(t);
	return status;
}

int sr_cmd_collect(int argc, char **argv)
{
	struct options o = {0};
	int to, status = 0;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return SR_EXIT_FAILED;
	if (mkdir(o.output, 0777) && errno != EEXIST)
		return sr_fail("cannot make %s: %s", o.output, strerror(errno));
	to = open(o.output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to < 0)
		return sr_fail("%s: %s", o.output, strerror(errno));
	for (int i = 0; i < o.count && !status; i++)
		status = collect(&o, o.traces[i], to);
	close(to);
	return status;
}
