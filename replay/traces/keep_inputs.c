/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/traces/keep_inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/file_hash.h"
#include "logd/trace/read_trace.h"
#include "replay/print/say.h"

/* Drafts are no content: readers skip names that begin with a dot. */
#define DRAFT "files/.draft-%d"

/* The files of one image. */
struct inputs {
	int trace, image; /* directories */
	const json_t *kept; /* the notes of those that are */
	struct sr_kept_inputs *sum;
};

/* An input, as a line of files.jsonl describes it. */
struct input {
	const char *xxh3, *samples;
	char *path;
	uint64_t size;
};

static const char *text_of(const json_t *file, const char *key)
{
	return json_string_value(json_object_get(file, key));
}

static uint64_t number_of(const json_t *file, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(file, key));
}

/* The content, if it is the recorded one: its name in the trace.  0 or -errno; -ESTALE: it is another. */
static int copy(const struct inputs *in, const struct input *i, int from, const char *draft, char name[64], char hash[17])
{
	char samples[17];
	uint64_t size;
	int to, err;

	unlinkat(in->trace, draft, 0);
	to = openat(in->trace, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	err = file_hash_copy(from, to, hash, &size);
	if (close(to) && !err)
		err = -errno;
	if (err)
		return err;
	if (size != i->size || (i->xxh3 && strcmp(hash, i->xxh3)) ||
	    (!i->xxh3 && (file_sample(from, size, samples) || strcmp(samples, i->samples))))
		return -ESTALE;
	snprintf(name, 64, "files/%s-%llu", hash, (unsigned long long)size);
	return renameat(in->trace, draft, in->trace, name) ? -errno : 0;
}

/* One more line about the file: it says what the others say, and where its content is.  In one write, as the daemon does. */
static int add_line(const struct inputs *in, const json_t *file, const char *name, const char *hash)
{
	json_t *line = json_copy((json_t *)file);
	int fd = openat(in->image, "files.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC), err = fd < 0 ? -errno : 0;
	char *text;
	size_t size;

	json_object_del(line, "samples");
	json_object_set_new(line, "xxh3", json_string(hash));
	json_object_set_new(line, "kept", json_string(name));
	text = json_dumps(line, JSON_COMPACT);
	size = text ? strlen(text) : 0;
	if (text)
		text[size] = '\n'; /* in place of the terminator */
	if (!err && (!text || write(fd, text, size + 1) != (ssize_t)size + 1))
		err = text ? -errno : -ENOMEM;
	if (fd >= 0)
		close(fd);
	free(text);
	json_decref(line);
	return err;
}

static int keep(const struct inputs *in, const struct input *i, const json_t *file)
{
	char draft[64], name[64], hash[17];
	int fd = open(i->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = fd < 0 ? -errno : 0;
	struct stat st;

	if (!err && (fstat(fd, &st) || !S_ISREG(st.st_mode)))
		err = -EINVAL;
	if (!err && mkdirat(in->trace, "files", 0700) && errno != EEXIST)
		err = -errno;
	snprintf(draft, sizeof(draft), DRAFT, (int)getpid());
	if (!err) {
		err = copy(in, i, fd, draft, name, hash);
		unlinkat(in->trace, draft, 0); /* unless it has its name */
	}
	if (!err)
		err = add_line(in, file, name, hash);
	if (fd >= 0)
		close(fd);
	if (!err) {
		in->sum->files++;
		in->sum->bytes += i->size;
	}
	return err;
}

static bool keep_one(const struct inputs *in, const json_t *file)
{
	struct input i = {.xxh3 = text_of(file, "xxh3"), .samples = text_of(file, "samples"), .size = number_of(file, "size")};
	int err;

	/* No record refers to it, or nobody knows what was in it: a replay says so. */
	if (!number_of(file, "note") || (!i.xxh3 && !i.samples) || sr_trace_is_kept(in->kept, file))
		return true;
	i.path = sr_trace_bytes(json_object_get(file, "path"), NULL);
	err = i.path ? keep(in, &i, file) : -EINVAL;
	if (err)
		sr_fail("%s, which a recorded program read, cannot be packed%s%s", i.path ? i.path : "a file",
			err == -ESTALE ? " any more: its content is another one" : ": ", err == -ESTALE ? "" : strerror(-err));
	free(i.path);
	return !err;
}

static bool keep_of_image(struct sr_trace *t, int32_t rank, struct sr_kept_inputs *sum)
{
	char path[PATH_MAX];
	struct sr_error err;
	json_t *files = sr_trace_files(t, rank, &err);
	struct inputs in = {.sum = sum};
	const json_t *file;
	json_t *kept;
	bool good = true;
	size_t i;

	if (!files)
		return !sr_fail("%s", err.text);
	in.kept = kept = sr_trace_kept_notes(files);
	sr_trace_rank_path(t, rank, NULL, path, sizeof(path));
	in.trace = open(sr_trace_dir(t), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	in.image = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (in.trace < 0 || in.image < 0)
		good = !sr_fail("%s: %s", path, strerror(errno));
	json_array_foreach(files, i, file)
	{
		if (in.trace >= 0 && in.image >= 0)
			good = keep_one(&in, file) && good;
	}
	if (in.trace >= 0)
		close(in.trace);
	if (in.image >= 0)
		close(in.image);
	json_decref(kept);
	json_decref(files);
	return good;
}

/* A child has a trace of its own, with one rank. */
static bool keep_of_child(const char *dir, struct sr_kept_inputs *sum)
{
	struct sr_trace *t;
	struct sr_error err;
	bool good = true;

	if (sr_trace_open(&t, dir, &err))
		return !sr_fail("%s", err.text);
	for (size_t i = 0; i < sr_trace_ranks(t); i++)
		for (uint32_t image = 0; image < sr_trace_images(t, sr_trace_rank_number(t, i)); image++)
			good = !sr_trace_choose_image(t, sr_trace_rank_number(t, i), image, &err) &&
			       sr_keep_inputs(t, sr_trace_rank_number(t, i), sum) && good;
	sr_trace_close(t);
	return good;
}

bool sr_keep_inputs(struct sr_trace *t, int32_t rank, struct sr_kept_inputs *sum)
{
	bool good = keep_of_image(t, rank, sum);
	char **dirs;
	size_t n;

	if (sr_trace_children(t, rank, &dirs, &n))
		return good;
	for (size_t i = 0; i < n; i++)
		good = keep_of_child(dirs[i], sum) && good;
	sr_trace_children_free(dirs, n);
	return good;
}
