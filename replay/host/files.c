/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/elf_id.h"
#include "replay/print/say.h"

static const char *text_of(const json_t *file, const char *key)
{
	return json_string_value(json_object_get(file, key));
}

/* Why it is not known whether the file is the same; NULL: it is known. */
static const char *why_unknown(const json_t *file)
{
	if (json_is_true(json_object_get(file, "changed")))
		return "was changed while it was recorded";
	if (text_of(file, "error"))
		return "could not be read when it was recorded";
	if (!text_of(file, "xxh3"))
		return "was used when the recording ended, before its content was noted";
	return NULL;
}

static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

static void compare(const json_t *file, const char *path, int fd)
{
	long long recorded = (long long)json_integer_value(json_object_get(file, "size"));
	const char *kept = text_of(file, "kept")
			       ? "; the trace keeps the recorded one: replay --sandbox uses it"
			       : "";
	char hash[17] = "none";
	struct stat st;
	uint64_t size;

	if (fstat(fd, &st)) {
		sr_note("%s cannot be read: %s", path, strerror(errno));
	} else if (st.st_size != recorded) {
		sr_note("%s, which the program read, has changed since it was recorded: it has "
			"%lld bytes, recorded were %lld%s",
			path, (long long)st.st_size, recorded, kept);
	} else if (why_unknown(file)) {
		sr_note("%s, which the program read, %s: whether it is the same is not known", path,
			why_unknown(file));
	} else if (file_hash_copy(fd, -1, hash, &size) || strcmp(hash, text_of(file, "xxh3"))) {
		sr_note("%s, which the program read, has changed since it was recorded: its "
			"content hash is %s, recorded was %s%s",
			path, hash, text_of(file, "xxh3"), kept);
	}
}

static void check(const json_t *file)
{
	size_t size;
	char *path = sr_trace_bytes(json_object_get(file, "path"), &size);
	int fd = path ? open_regular(path) : -EINVAL;

	if (fd >= 0) {
		compare(file, path, fd);
		close(fd);
	} else {
		sr_note("%s, which the program read, cannot be read now: %s%s",
			path ? path : "a file", strerror(-fd),
			text_of(file, "kept") ? "; replay --sandbox takes it from the trace" : "");
	}
	free(path);
}

static json_t *list(struct sr_trace *t, int32_t rank)
{
	struct sr_error err;
	json_t *files = sr_trace_files(t, rank, &err);

	if (!files)
		sr_fail("%s", err.text);
	return files;
}

bool sr_files_check(struct sr_trace *t, int32_t rank, const char *dir, bool restored)
{
	json_t *files = list(t, rank), *file;
	size_t i;

	if (!files)
		return false;
	json_array_foreach(files, i, file)
	{
		if (!restored || !text_of(file, "kept"))
			check(file);
	}
	json_decref(files);
	return true;
}

static bool is_plain_path(const char *path)
{
	if (path[0] != '/' || !path[1] || path[strlen(path) - 1] == '/')
		return false;
	for (const char *part = path; part; part = strchr(part + 1, '/')) {
		size_t n = strcspn(part + 1, "/");

		if (!n || (n == 1 && part[1] == '.') ||
		    (n == 2 && part[1] == '.' && part[2] == '.'))
			return false;
	}
	return true;
}

/* In a sandbox the directory replaces the machine's, so owner and mode must be the same. */
static int make_directory(int parent, const char *name, const char *original)
{
	struct stat st = {.st_mode = 0755, .st_uid = geteuid(), .st_gid = getegid()};
	int fd;

	if (mkdirat(parent, name, 0700) && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (stat(original, &st) && errno != ENOENT)
		return fd;
	if (fchown(fd, st.st_uid, st.st_gid) && geteuid() == 0)
		sr_note("%s: cannot set its owner: %s", original, strerror(errno));
	fchmod(fd, st.st_mode & 07777);
	return fd;
}

/*
 * Makes the directories for a file below root; *name: the last part of the path.  The directory's
 * descriptor, or -errno.
 */
static int make_way(int root, char *path, const char **name)
{
	int fd = fcntl(root, F_DUPFD_CLOEXEC, 0), next;
	char *slash;

	for (char *part = path + 1; fd >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
		*slash = 0;
		next = make_directory(fd, part, path);
		*slash = '/';
		close(fd);
		fd = next;
	}
	*name = strrchr(path, '/') + 1;
	return fd;
}

static int copy_to(int directory, const char *name, int from, const json_t *file, mode_t mode)
{
	int to =
	    openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	char hash[17];
	uint64_t size;
	int err = to < 0 ? -errno : file_hash_copy(from, to, hash, &size);

	if (to >= 0)
		close(to);
	if (!err && strcmp(hash, text_of(file, "xxh3")))
		err = -EBADMSG;
	/* Of several files with one path, the first is what the program saw first. */
	return err == -EEXIST ? 0 : err;
}

static bool restore(const json_t *file, const char *dir, int root)
{
	char kept[PATH_MAX];
	const char *name;
	struct stat st;
	size_t size;
	char *path = sr_trace_bytes(json_object_get(file, "path"), &size);
	int from, directory = -EINVAL, err = -EINVAL;

	snprintf(kept, sizeof(kept), "%s/%s", dir, text_of(file, "kept"));
	from = open_regular(kept);
	if (from >= 0 && path && text_of(file, "xxh3") && is_plain_path(path))
		directory = make_way(root, path, &name);
	else if (from < 0)
		err = from;
	if (directory >= 0) {
		err = copy_to(directory, name, from, file,
			      stat(path, &st) ? 0644 : st.st_mode & 0777);
		close(directory);
	}
	if (from >= 0)
		close(from);
	if (err)
		sr_fail("%s: cannot restore %s from it: %s", kept, path ? path : "a file",
			err == -EBADMSG ? "it is damaged" : strerror(-err));
	free(path);
	return !err;
}

bool sr_files_restore(struct sr_trace *t, int32_t rank, const char *dir, const char *root)
{
	int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	json_t *files = list(t, rank), *file;
	bool good = files != NULL;
	size_t i;

	if (root_fd < 0)
		good = !sr_fail("cannot open %s: %s", root, strerror(errno));
	json_array_foreach(files, i, file)
	{
		if (good && text_of(file, "kept"))
			good = restore(file, dir, root_fd);
	}
	if (root_fd >= 0)
		close(root_fd);
	json_decref(files);
	return good;
}
