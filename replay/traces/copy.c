/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/traces/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/seal.h"
#include "replay/print/say.h"

void (*sr_copy_progress)(uint64_t bytes);

#define FILE_MODE 0600

/* -errno. */
static int copy_bytes(int from, int to)
{
	ssize_t n;

	while ((n = sendfile(to, from, NULL, 1 << 20)) > 0) {
		if (sr_copy_progress)
			sr_copy_progress((uint64_t)n);
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

int sr_copy_files(int from_dir, int to_dir, int (*copy)(int from, int to, const char *name),
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

int sr_copy_open_directory(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

const char *sr_copy_reason(int err)
{
	return err == -EMEDIUMTYPE ? "it is not a regular file" : strerror(-err);
}

void sr_copy_seal(int from, int to)
{
	if (sr_seal_holds(from))
		sr_seal_make(to);
}



static int copy_inner(int from_dir, int to_dir, const char *name)
{
	int from = sr_copy_open_directory(from_dir, name), to, err;
	char bad[NAME_MAX + 1];

	if (from < 0)
		return from;
	err = mkdirat(to_dir, name, SR_COPY_DIR_MODE) ? -errno : 0;
	to = err ? err : sr_copy_open_directory(to_dir, name);
	if (!err)
		err = to < 0 ? to : sr_copy_files(from, to, sr_copy_of_rank, bad);
	if (!err)
		sr_copy_seal(from, to);
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

int sr_copy_of_rank(int from_dir, int to_dir, const char *name)
{
	return is_inner(from_dir, name) ? copy_inner(from_dir, to_dir, name)
					: copy_file(from_dir, to_dir, name, name);
}

/* The result appears complete under its name, or not at all. */
int sr_copy_rank(int from_trace, int to_trace, int32_t rank, char bad[NAME_MAX + 1])
{
	char name[32], draft[48];
	int from, to, err;

	snprintf(name, sizeof(name), "rank-%d", rank);
	snprintf(draft, sizeof(draft), ".%s.%d", name, (int)getpid());
	from = sr_copy_open_directory(from_trace, name);
	if (from < 0)
		return from;
	if (mkdirat(to_trace, draft, SR_COPY_DIR_MODE)) {
		err = -errno;
		close(from);
		return err;
	}
	to = sr_copy_open_directory(to_trace, draft);
	err = to < 0 ? to : sr_copy_files(from, to, sr_copy_of_rank, bad);
	if (!err)
		sr_copy_seal(from, to);
	/* An existing directory is only replaced if it is empty. */
	if (!err && renameat(to_trace, draft, to_trace, name))
		err = errno == ENOTEMPTY ? -EEXIST : -errno;
	if (to >= 0)
		close(to);
	close(from);
	return err;
}

/* The contents that `record --record-files` has kept. */
int sr_copy_kept_files(const char *dir, int from_trace, int to_trace)
{
	char bad[NAME_MAX + 1] = "";
	int from = sr_copy_open_directory(from_trace, "files"), to, err;

	if (from == -ENOENT)
		return 0;
	err = from < 0 ? from : 0;
	if (!err && mkdirat(to_trace, "files", SR_COPY_DIR_MODE) && errno != EEXIST)
		err = -errno;
	to = err ? -1 : sr_copy_open_directory(to_trace, "files");
	if (!err)
		err = to < 0 ? to : sr_copy_files(from, to, copy_kept, bad);
	if (to >= 0)
		close(to);
	if (from >= 0)
		close(from);
	return err ? sr_fail("%s: files/%s cannot be copied: %s", dir, bad, sr_copy_reason(err)) : 0;
}

/* The manifests of traces that this sreplay reads are all alike. */
int sr_copy_manifest(int from, int to)
{
	int err = copy_file(from, to, "manifest.json", "manifest.json");

	return err == -EEXIST ? 0 : err;
}
