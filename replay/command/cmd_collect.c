/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_collect.c: `sreplay collect`: merges the traces that a job left on its nodes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/reader.h"
#include "logd/trace/seal.h"
#include "replay/analysis/log/sizes.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/print/json.h"
#include "replay/print/progress.h"

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

/* For this user only, as the daemon makes them: a trace holds the memory of a process. */
#define DIR_MODE  0700
#define FILE_MODE 0600

/* -errno. */
static int copy_bytes(int from, int to)
{
	ssize_t n;

	while ((n = sendfile(to, from, NULL, 1 << 20)) > 0) {
		progress.done += (uint64_t)n;
		if (progress.show && progress.size)
			progress.show((double)progress.done / (double)progress.size);
	}
	return n < 0 ? -errno : 0;
}

/* A regular file; what else may lie in a trace (a link, a FIFO) leads out of it, or blocks. */
static int open_regular(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return errno == ELOOP ? -EMEDIUMTYPE : -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EMEDIUMTYPE;
}

static int copy_file(int from_dir, int to_dir, const char *name, const char *as)
{
	int from = open_regular(from_dir, name), to, err;

	if (from < 0)
		return from;
	to = openat(to_dir, as, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	err = to < 0 ? -errno : copy_bytes(from, to);
	if (to >= 0 && close(to) && !err)
		err = -errno;
	close(from);
	return err;
}

/* A kept file is named after its content, so that another rank may have brought it already. */
static int copy_kept(int from_dir, int to_dir, const char *name)
{
	char draft[300];
	int err;

	if (!faccessat(to_dir, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	snprintf(draft, sizeof(draft), ".%s.%d", name, (int)getpid());
	err = copy_file(from_dir, to_dir, name, draft);
	if (!err && linkat(to_dir, draft, to_dir, name, 0) && errno != EEXIST)
		err = -errno;
	unlinkat(to_dir, draft, 0);
	return err;
}

/* Of a directory that has only files.  *bad: the one that could not be copied. */
static int copy_files(int from_dir, int to_dir, int (*copy)(int from, int to, const char *name),
		      char bad[NAME_MAX + 1])
{
	DIR *list = fdopendir(dup(from_dir));
	struct dirent *entry;
	int err = list ? 0 : -errno;

	while (!err && (entry = readdir(list))) {
		if (entry->d_name[0] == '.') /* drafts are no part of a trace */
			continue;
		err = copy(from_dir, to_dir, entry->d_name);
		if (err)
			snprintf(bad, NAME_MAX + 1, "%s", entry->d_name);
	}
	if (list)
		closedir(list);
	return err;
}

static int open_directory(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static const char *reason(int err)
{
	return err == -EMEDIUMTYPE ? "it is not a regular file" : strerror(-err);
}

/* A copy of one's own recording by oneself.  Without the seal its replay has a sandbox. */
static void seal(int from, int to)
{
	if (sr_seal_holds(from))
		sr_seal_make(to);
}

static int copy_of_rank(int from_dir, int to_dir, const char *name);

static int copy_inner(int from_dir, int to_dir, const char *name)
{
	int from = open_directory(from_dir, name), to, err;
	char bad[NAME_MAX + 1];

	if (from < 0)
		return from;
	err = mkdirat(to_dir, name, DIR_MODE) ? -errno : 0;
	to = err ? err : open_directory(to_dir, name);
	if (!err)
		err = to < 0 ? to : copy_files(from, to, copy_of_rank, bad);
	if (!err)
		seal(from, to);
	if (to >= 0)
		close(to);
	close(from);
	return err;
}

/* A later image, or the trace of a child with its rank and kept files. */
static bool is_inner(int dir, const char *name)
{
	static const char *const names[] = {"image-", "child-", "rank-", "files"};
	struct stat st;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode);
	return false;
}

static int copy_of_rank(int from_dir, int to_dir, const char *name)
{
	return is_inner(from_dir, name) ? copy_inner(from_dir, to_dir, name)
					: copy_file(from_dir, to_dir, name, name);
}

/* The result appears complete under its name, or not at all. */
static int copy_rank(int from_trace, int to_trace, int32_t rank, char bad[NAME_MAX + 1])
{
	char name[32], draft[48];
	int from, to, err;

	snprintf(name, sizeof(name), "rank-%d", rank);
	snprintf(draft, sizeof(draft), ".%s.%d", name, (int)getpid());
	from = open_directory(from_trace, name);
	if (from < 0)
		return from;
	if (mkdirat(to_trace, draft, DIR_MODE)) {
		err = -errno;
		close(from);
		return err;
	}
	to = open_directory(to_trace, draft);
	err = to < 0 ? to : copy_files(from, to, copy_of_rank, bad);
	if (!err)
		seal(from, to);
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
		char bad[NAME_MAX + 1] = "";
		int err = copy_rank(from, to, rank, bad);

		if (err == -EEXIST)
			return sr_fail("%s: rank %d is in %s already", dir, rank, o->output);
		if (err)
			return sr_fail("%s: rank %d cannot be copied: %s%s%s", dir, rank, bad,
				       bad[0] ? ": " : "", reason(err));
	}
	return 0;
}

/* The contents that `record --record-files` has kept. */
static int copy_kept_files(const char *dir, int from_trace, int to_trace)
{
	char bad[NAME_MAX + 1] = "";
	int from = open_directory(from_trace, "files"), to, err;

	if (from == -ENOENT)
		return 0;
	err = from < 0 ? from : 0;
	if (!err && mkdirat(to_trace, "files", DIR_MODE) && errno != EEXIST)
		err = -errno;
	to = err ? -1 : open_directory(to_trace, "files");
	if (!err)
		err = to < 0 ? to : copy_files(from, to, copy_kept, bad);
	if (to >= 0)
		close(to);
	if (from >= 0)
		close(from);
	return err ? sr_fail("%s: files/%s cannot be copied: %s", dir, bad, reason(err)) : 0;
}

/* The manifests of traces that this sreplay reads are all alike. */
static int copy_manifest(int from, int to)
{
	int err = copy_file(from, to, "manifest.json", "manifest.json");

	return err == -EEXIST ? 0 : err;
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
	err = from < 0 ? -errno : copy_manifest(from, to);
	status = err ? sr_fail("%s: %s", dir, reason(err)) : copy_kept_files(dir, from, to);
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

static void begin_progress(const struct options *o)
{
	for (int i = 0; i < o->count && !o->quiet; i++)
		progress.size += size_of(o->traces[i]);
	progress.show = sr_progress_begin("copying", progress.size, o->quiet);
}

int sr_cmd_collect(int argc, char **argv)
{
	struct options o = {0};
	int to, status = 0;

	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	if (mkdir(o.output, DIR_MODE) && errno != EEXIST)
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
