/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/pack_loaded.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "replay/host/start/packed.h"

#define DRAFT SR_PACKED "/.draft.loaded"

static bool is_library(int trace, const char *kept)
{
	int fd = openat(trace, kept, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	Elf64_Ehdr header;
	bool is = fd >= 0 && read(fd, &header, sizeof(header)) == sizeof(header) && !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
		  header.e_type == ET_DYN;

	if (fd >= 0)
		close(fd);
	return is;
}

/* The content has another name: it takes no more room. */
static int put_in_place(int trace, const char *kept, const char *path)
{
	int to = sr_packed_make_directory(trace, path), err;

	if (to < 0)
		return to;
	err = linkat(trace, kept, to, strrchr(path, '/') + 1, 0) && errno != EEXIST ? -errno : 0;
	close(to);
	return err;
}

static bool has_path(const json_t *list, const json_t *path)
{
	const json_t *object;
	size_t i;

	json_array_foreach(list, i, object)
	{
		if (json_equal(json_object_get(object, "path"), path))
			return true;
	}
	return false;
}

static void add_path(json_t *list, json_t *path)
{
	if (!has_path(list, path))
		json_array_append_new(list, json_pack("{s:O}", "path", path));
}

int sr_pack_loaded(int trace, const struct sr_trace *t, int32_t rank, json_t *loaded)
{
	struct sr_error err;
	json_t *files = sr_trace_files(t, rank, &err);
	const json_t *file;
	int status = files ? 0 : -EIO;
	size_t i;

	json_array_foreach(files, i, file)
	{
		const char *kept = json_string_value(json_object_get(file, "kept"));
		json_t *of = json_object_get(file, "path");
		char *path = kept ? sr_trace_bytes(of, NULL) : NULL;

		if (path && !status && sr_packed_may_be(path) && (is_library(trace, kept) || !strcmp(path, SR_PACKED_CACHE))) {
			status = put_in_place(trace, kept, path);
			add_path(loaded, of);
		}
		free(path);
	}
	json_decref(files);
	return status;
}

int sr_pack_list_loaded(int trace, const char *dir, json_t *loaded)
{
	json_t *before = sr_packed_loaded(dir);
	const json_t *object;
	int fd, err = 0;
	size_t i;

	json_array_foreach(before, i, object)
		add_path(loaded, json_object_get(object, "path"));
	json_decref(before);
	if (!json_array_size(loaded))
		return 0;
	unlinkat(trace, DRAFT, 0);
	fd = openat(trace, DRAFT, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (json_dumpfd(loaded, fd, JSON_COMPACT))
		err = -EIO;
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(trace, DRAFT, trace, SR_PACKED_LOADED))
		err = -errno;
	return err;
}
