/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logd/trace/names.h"
#include "replay/print/say.h"

/* How long a file system may take; after the shorter time the user is told. */
#define ANSWER_MS 5000
#define SAY_MS    1000

static bool fail(const char *trace, const char *what, int err)
{
	sr_fail("%s: %s: %s", trace, what, strerror(err));
	return false;
}

/* Only a try shows what owners, quotas, full disks and read-only file systems allow. */
static int try_to_write(const char *dir)
{
	char draft[PATH_MAX], file[PATH_MAX + 8];
	int fd, err = 0;

	if ((size_t)snprintf(draft, sizeof(draft), "%s/.sreplay.%d", dir, (int)getpid()) >=
	    sizeof(draft))
		return ENAMETOOLONG;
	if (mkdir(draft, 0700))
		return errno;
	snprintf(file, sizeof(file), "%s/try", draft);
	fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	errno = fd < 0 ? errno : ENOSPC;
	if (fd < 0 || write(fd, "x", 1) != 1)
		err = errno;
	/* Some file systems notice only now that there is no room. */
	if (fd >= 0 && close(fd) && !err)
		err = errno;
	unlink(file);
	rmdir(draft);
	return err;
}

static bool parent_of(const char *path, char parent[PATH_MAX])
{
	char *slash;

	if (strlen(path) >= PATH_MAX)
		return false;
	strcpy(parent, path);
	for (slash = parent + strlen(parent); slash > parent + 1 && slash[-1] == '/'; slash--)
		slash[-1] = 0;
	slash = strrchr(parent, '/');
	if (!slash)
		return false;
	slash[slash == parent ? 1 : 0] = 0;
	return true;
}

static bool can_be_made(const char *trace)
{
	char parent[PATH_MAX];
	int err = parent_of(trace, parent) ? try_to_write(parent) : ENAMETOOLONG;

	return !err || fail(trace, "the trace's directory cannot be made", err);
}

static bool holds_something_else(const char *trace)
{
	DIR *d = opendir(trace);
	struct dirent *entry;
	bool other = false;

	while (d && !other && (entry = readdir(d)))
		other = !sr_is_name_in_trace(entry->d_name);
	if (d)
		closedir(d);
	return other;
}

static bool has(const char *trace, const char *name)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", trace, name);
	return !access(path, F_OK);
}

static bool can_be_added_to(const char *trace, long rank)
{
	char name[32];
	int err;

	snprintf(name, sizeof(name), "rank-%ld", rank);
	/* Once more at the end: others, who begin the same trace now, may have made it meanwhile. */
	if (!has(trace, "manifest.json") && holds_something_else(trace) &&
	    !has(trace, "manifest.json")) {
		sr_fail("%s is there already and is not a trace: choose another directory (-o)",
			trace);
		return false;
	}
	if (rank >= 0 && has(trace, name)) {
		sr_fail("rank %ld of %s is recorded already: choose another rank (--rank) or "
			"another directory (-o)",
			rank, trace);
		return false;
	}
	err = try_to_write(trace);
	return !err || fail(trace, "the trace cannot be written to", err);
}

static bool is_usable(const char *trace, long rank)
{
	struct stat st;

	if (stat(trace, &st))
		return errno == ENOENT ? can_be_made(trace)
				       : fail(trace, "the trace cannot be written", errno);
	if (!S_ISDIR(st.st_mode))
		return fail(trace, "the trace cannot be written", ENOTDIR);
	return can_be_added_to(trace, rank);
}

/* 1: it has ended; 0: the time is over. */
static int await(int pidfd, int ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int n;

	while ((n = poll(&p, 1, ms)) < 0 && errno == EINTR)
		;
	return n != 0;
}

/* A process of its own tries, because nothing can end its wait for a frozen file system. */
bool sr_output_is_usable(const char *trace, long rank, bool quiet)
{
	pid_t child = fork();
	int status = 0, pidfd;

	if (child == 0)
		_exit(is_usable(trace, rank) ? 0 : 1);
	if (child < 0)
		return is_usable(trace, rank);
	pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	if (pidfd >= 0 && !await(pidfd, SAY_MS)) {
		if (!quiet)
			sr_note("waiting for the file system of %s", trace);
		if (!await(pidfd, ANSWER_MS - SAY_MS)) {
			close(pidfd);
			return fail(trace, "its file system does not answer", ETIMEDOUT);
		}
	}
	if (pidfd >= 0)
		close(pidfd);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}
