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

#include "logd/trace/file_hash.h"
#include "replay/print/say.h"

static const char *text_of(const json_t *file, const char *key)
{
	return json_string_value(json_object_get(file, key));
}

static long long note_of(const json_t *file)
{
	return (long long)json_integer_value(json_object_get(file, "note"));
}

/* Of the content, or of samples. */
static const char *recorded_hash(const json_t *file)
{
	const char *whole = text_of(file, "xxh3");

	return whole ? whole : text_of(file, "samples");
}

/* Why it is not known whether the file is the same; NULL: it is known. */
static const char *why_unknown(const json_t *file)
{
	if (json_is_true(json_object_get(file, "changed")))
		return "was changed while it was recorded";
	if (text_of(file, "error"))
		return "could not be read when it was recorded";
	if (!text_of(file, "xxh3") && !text_of(file, "samples"))
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

/* True, and the hash now: the content has changed. */
static bool differs(const json_t *file, int fd, uint64_t size, char hash[17])
{
	const char *recorded = recorded_hash(file);

	if (text_of(file, "xxh3"))
		return file_hash_copy(fd, -1, hash, &size) || strcmp(hash, recorded);
	return file_sample(fd, size, hash) || strcmp(hash, recorded);
}

static long long size_of(const json_t *file)
{
	return (long long)json_integer_value(json_object_get(file, "size"));
}

#define ADVICE "; to keep what a program read: sreplay pack before it changes, or record --record-files"

static void compare(const json_t *file, const char *path, int fd)
{
	long long recorded = size_of(file);
	const char *kept = text_of(file, "kept")
			       ? "; the trace keeps the recorded one: without --live-files the replay uses it"
			       : ADVICE;
	char hash[17] = "none";
	struct stat st;

	if (fstat(fd, &st)) {
		sr_note("%s cannot be read: %s", path, strerror(errno));
	} else if (st.st_size != recorded) {
		sr_note("%s, which the program read, has changed since it was recorded: it has "
			"%lld bytes, recorded were %lld%s",
			path, (long long)st.st_size, recorded, kept);
	} else if (why_unknown(file)) {
		sr_note("%s, which the program read, %s: whether it is the same is not known", path,
			why_unknown(file));
	} else if (differs(file, fd, (uint64_t)st.st_size, hash)) {
		sr_note("%s, which the program read, has changed since it was recorded: its "
			"content hash is %s, recorded was %s%s",
			path, hash, recorded_hash(file), kept);
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
	} else if (fd != -ENOENT || size_of(file)) {
		sr_note("%s, which the program read, cannot be read now: %s%s",
			path ? path : "a file", strerror(-fd),
			text_of(file, "kept") ? "; without --live-files the replay takes it from the trace" : ADVICE);
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

bool sr_files_check(struct sr_trace *t, int32_t rank, bool kept)
{
	json_t *files = list(t, rank), *file, *notes;
	size_t i;

	if (!files)
		return false;
	notes = sr_trace_kept_notes(files);
	json_array_foreach(files, i, file)
	{
		if (!kept || !sr_trace_is_kept(notes, file))
			check(file);
	}
	json_decref(notes);
	json_decref(files);
	return true;
}

/* Damaged content would make another run of this one. */
static bool is_whole(const json_t *file, const char *path)
{
	int fd = open_regular(path);
	char hash[17] = "";
	uint64_t size;
	bool whole;

	if (fd < 0)
		return !sr_fail("%s, which the program read, cannot be read: %s", path, strerror(-fd));
	whole = !file_hash_copy(fd, -1, hash, &size) && text_of(file, "xxh3") &&
		!strcmp(hash, text_of(file, "xxh3"));
	close(fd);
	return whole || !sr_fail("%s, which the program read, cannot be used: it is damaged", path);
}

static bool link_one(const json_t *file, const char *dir, int directory)
{
	char kept[PATH_MAX + 64], name[24];

	snprintf(kept, sizeof(kept), "%s/%s", dir, text_of(file, "kept"));
	snprintf(name, sizeof(name), "%lld", note_of(file));
	if (!is_whole(file, kept))
		return false;
	if (!symlinkat(kept, directory, name) || errno == EEXIST)
		return true;
	return !sr_fail("cannot make a link to %s: %s", kept, strerror(errno));
}

bool sr_files_link(struct sr_trace *t, int32_t rank, const char *trace, int directory)
{
	json_t *files = list(t, rank), *file;
	char dir[PATH_MAX];
	bool good = files != NULL;
	size_t i;

	if (good && !realpath(trace, dir))
		good = !sr_fail("%s: %s", trace, strerror(errno));
	json_array_foreach(files, i, file)
	{
		if (good && text_of(file, "kept") && note_of(file))
			good = link_one(file, dir, directory);
	}
	json_decref(files);
	return good;
}
