/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/traces.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/reader.h"
#include "replay/print/say.h"
#include "shim/core/setting.h"

#define LAUNCH  ".launch" /* readers of traces skip what begins with a dot */
#define ENDING  ".srec"
#define TRIES   100
#define ID_SIZE 512

const char *sr_traces_dir(void)
{
	const char *dir = getenv("SREPLAY_TRACE_DIR");

	return dir && *dir ? dir : ".";
}

/* ------------------------------------------------------------ the launch */

/* What launchers give to all processes of one launch, and to no others. */
static const char *const launch_variables[] = {
    "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid", "PMI_JOBID",
    "PALS_APID",
};

static bool has_launcher(void)
{
	for (size_t i = 0; i < SR_LAUNCHER_RANKS; i++)
		if (getenv(sr_launcher_ranks[i]))
			return true;
	return false;
}

/* When the process began, so that a process number which is used again is another launch. */
static unsigned long long start_of(pid_t pid)
{
	char path[64], text[1024] = "", *at;
	unsigned long long ticks = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f && fgets(text, sizeof(text), f) && (at = strrchr(text, ')')))
		sscanf(at + 1,
		       "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		       "%*s %llu",
		       &ticks);
	if (f)
		fclose(f);
	return ticks;
}

/* Without a launcher each run is a launch of its own. */
static void identify_launch(char id[ID_SIZE])
{
	const char *step = getenv("SLURM_STEP_ID"), *job = getenv("SLURM_JOB_ID");
	pid_t process = has_launcher() ? getppid() : getpid();

	for (size_t i = 0;
	     has_launcher() && i < sizeof(launch_variables) / sizeof(*launch_variables); i++) {
		const char *value = getenv(launch_variables[i]);

		if (!value)
			continue;
		snprintf(id, ID_SIZE, "%s=%s", launch_variables[i], value);
		return;
	}
	if (has_launcher() && step && job)
		snprintf(id, ID_SIZE, "SLURM=%s.%s", job, step);
	else
		snprintf(id, ID_SIZE, "process=%d.%llu", (int)process, start_of(process));
}

/* --------------------------------------------------------------- the name */

/* One that has the rank is of an earlier command of the same launch. */
static bool is_of_launch(const char *trace, const char *id, long rank)
{
	char path[PATH_MAX + 32], text[ID_SIZE] = "";
	FILE *f;
	bool same;

	snprintf(path, sizeof(path), "%s/rank-%ld", trace, rank);
	if (!access(path, F_OK))
		return false;
	snprintf(path, sizeof(path), "%s/" LAUNCH, trace);
	f = fopen(path, "re");
	same = f && fgets(text, sizeof(text), f) && !strcmp(text, id);
	if (f)
		fclose(f);
	return same;
}

/* COMMAND-N.srec: N; -1: another name. */
static long number_in(const char *name, const char *command)
{
	size_t n = strlen(command);
	char *end;
	long number;

	if (strncmp(name, command, n) || name[n] != '-' || !isdigit((unsigned char)name[n + 1]))
		return -1;
	number = strtol(name + n + 1, &end, 10);
	return strcmp(end, ENDING) || number == LONG_MAX ? -1 : number;
}

/* The launch's number, if it has one; else the next one, *is_new.  -1: errno. */
static long find_number(const char *dir, const char *command, const char *id, long rank,
			bool *is_new)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(dir);
	long next = 0, found = -1;

	if (!d)
		return -1;
	while (found < 0 && (e = readdir(d))) {
		long number = number_in(e->d_name, command);

		if (number < 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (is_of_launch(path, id, rank))
			found = number;
		next = number >= next ? number + 1 : next;
	}
	closedir(d);
	*is_new = found < 0;
	return found < 0 ? next : found;
}

/* A hidden directory with the launch's file, which becomes the trace's as a whole. */
static bool make_draft(const char *dir, const char *id, char draft[PATH_MAX])
{
	char path[PATH_MAX + 16];
	FILE *f;

	if ((size_t)snprintf(draft, PATH_MAX, "%s/.sreplay.XXXXXX", dir) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (!mkdtemp(draft)) /* 0700, as the daemon makes traces */
		return false;
	snprintf(path, sizeof(path), "%s/" LAUNCH, draft);
	f = fopen(path, "wxe");
	if (f && fputs(id, f) >= 0 && !fclose(f))
		return true;
	sr_traces_release(draft);
	return false;
}

void sr_traces_release(const char *trace)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/manifest.json", trace);
	if (!access(path, F_OK))
		return;
	snprintf(path, sizeof(path), "%s/" LAUNCH, trace);
	unlink(path);
	rmdir(trace);
}

/*
 * Another rank may come between looking and renaming: then the name is taken, since a directory
 * does not replace one with something in it, and the rank looks again.
 */
static char *claim(const char *dir, const char *command, const char *id, long rank)
{
	char draft[PATH_MAX], path[PATH_MAX];
	bool is_new, done = false;

	if (!make_draft(dir, id, draft))
		return NULL;
	for (int i = 0; i < TRIES && !done; i++) {
		long number = find_number(dir, command, id, rank, &is_new);

		if (number < 0)
			break;
		if ((size_t)snprintf(path, sizeof(path), "%s/%s-%ld" ENDING, dir, command,
				     number) >= sizeof(path)) {
			errno = ENAMETOOLONG;
			break;
		}
		done = !is_new || !rename(draft, path);
		if (!done && errno != ENOTEMPTY && errno != EEXIST)
			break;
	}
	if (!done || !is_new) {
		int err = errno;

		sr_traces_release(draft);
		errno = err;
	}
	return done ? strdup(path) : NULL;
}

char *sr_traces_claim(const char *command, long rank)
{
	const char *slash = strrchr(command, '/'), *name = slash ? slash + 1 : command;
	char *dir = realpath(sr_traces_dir(), NULL), *path = NULL;
	char id[ID_SIZE];

	identify_launch(id);
	if (dir)
		path = claim(dir, name, id, rank);
	if (!path)
		sr_fail("cannot make a trace in %s: %s (-o names another place, and so does "
			"SREPLAY_TRACE_DIR)",
			sr_traces_dir(), strerror(errno));
	free(dir);
	return path;
}

/* --------------------------------------------------------------- the list */

static int by_age(const void *a, const void *b)
{
	const struct sr_trace_found *x = a, *y = b;

	if (x->began != y->began)
		return x->began > y->began ? -1 : 1;
	return strcmp(x->path, y->path);
}

static bool has_ending(const char *name)
{
	size_t n = strlen(name), m = strlen(ENDING);

	return n > m && !strcmp(name + n - m, ENDING);
}

/* Web pages have files of that name as well. */
static bool is_trace(const char *path)
{
	struct sr_trace *t;

	if (sr_trace_open(&t, path, NULL))
		return false;
	sr_trace_close(t);
	return true;
}

static int add(struct sr_trace_found **list, size_t *n, const char *dir, const char *name)
{
	struct sr_trace_found *more;
	struct stat st;
	char *path, *manifest;
	bool is_current = !strcmp(dir, ".");
	int got;

	if (asprintf(&path, "%s%s%s", is_current ? "" : dir, is_current ? "" : "/", name) < 0)
		return -ENOMEM;
	if (asprintf(&manifest, "%s/manifest.json", path) < 0) {
		free(path);
		return -ENOMEM;
	}
	got = stat(manifest, &st) || (!has_ending(name) && !is_trace(path));
	free(manifest);
	more = got ? NULL : realloc(*list, (*n + 1) * sizeof(*more));
	if (!more) {
		free(path);
		return got ? 0 : -ENOMEM;
	}
	*list = more;
	more[*n].path = path;
	more[(*n)++].began = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
	return 0;
}

int sr_traces_list(struct sr_trace_found **list, size_t *n)
{
	const char *dir = sr_traces_dir();
	DIR *d = opendir(dir);
	struct dirent *e;
	int err = 0;

	*list = NULL;
	*n = 0;
	if (!d)
		return -errno;
	while (!err && (e = readdir(d)))
		if (e->d_name[0] != '.')
			err = add(list, n, dir, e->d_name);
	closedir(d);
	if (*n)
		qsort(*list, *n, sizeof(**list), by_age);
	return err;
}

void sr_traces_free(struct sr_trace_found *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i].path);
	free(list);
}

static const char *find_newest(void)
{
	struct sr_trace_found *list;
	size_t n;
	int err = sr_traces_list(&list, &n);
	const char *path = NULL;

	if (err)
		sr_fail("cannot read %s: %s", sr_traces_dir(), strerror(-err));
	else if (!n)
		sr_fail("there is no trace in %s: name one (DIR.srec), or its directory in "
			"SREPLAY_TRACE_DIR",
			!strcmp(sr_traces_dir(), ".") ? "the current directory" : sr_traces_dir());
	else
		sr_note("%s is the newest trace", list[0].path);
	if (!err && n)
		path = strdup(list[0].path);
	sr_traces_free(list, n);
	return path;
}

const char *sr_traces_find(const char *name)
{
	static const char *const endings[] = {"", ENDING};
	static const char *const dirs[] = {".", NULL};
	char *path;

	if (!name)
		return find_newest();
	if (strchr(name, '/') || !access(name, F_OK))
		return name;
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < 2; k++) {
			const char *dir = dirs[i] ? dirs[i] : sr_traces_dir();

			if (asprintf(&path, "%s/%s%s", dir, name, endings[k]) < 0)
				return name;
			if (!access(path, F_OK))
				return path;
			free(path);
		}
	return name;
}
