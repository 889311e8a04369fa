/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/trace_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sreplay/trace.h>

#include "logd/base/hex.h"
#include "logd/service/log.h"
#include "logd/trace/file_io.h"
#include "logd/trace/format.h"
#include "logd/trace/names.h"
#include "logd/trace/seal.h"

/* For this user only: a trace holds the environment and memory of a process. */
#define DIR_MODE  0700
#define FILE_MODE 0600

/* Where a sentence for the user goes. */
struct sentence {
	char *text;
	size_t size;
};

__attribute__((format(printf, 3, 4))) static int fail(const struct sentence *w, int code,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(w->text, w->size, format, args);
	va_end(args);
	return code;
}

void process_id_text(char text[33], const uint8_t *process)
{
	sr_to_hex(text, process, 16);
}

/* ---- files ---- */

static int write_text(int dir, const char *name, const char *text, size_t size)
{
	int fd =
	    openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
	int err;

	if (fd < 0)
		return -errno;
	err = write_all(fd, text, size);
	if (close(fd) && !err)
		err = -errno;
	return err;
}

static int write_json(int dir, const char *name, const json_t *value)
{
	char *text = json_dumps(value, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
	int err = text ? write_text(dir, name, text, strlen(text)) : -ENOMEM;

	free(text);
	return err;
}

static json_t *read_json(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	json_t *value;

	if (!file) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	value = json_loadf(file, 0, NULL);
	fclose(file);
	return value;
}

/* ---- the manifest ---- */

/* Something that another claim, which begins the same trace now, has not made. */
static bool holds_something_else(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool other = false;
	struct dirent *entry;

	if (!d)
		return false;
	while (!other && (entry = readdir(d)))
		other = !sr_is_name_in_trace(entry->d_name);
	closedir(d);
	return other;
}

static int check_manifest(const struct rank_claim *c, int dir, const struct sentence *w)
{
	json_t *manifest = read_json(dir, "manifest.json");
	const char *format = json_string_value(json_object_get(manifest, "format"));
	json_int_t version = json_integer_value(json_object_get(manifest, "version"));
	int ret = 0;

	if (!format || strcmp(format, "sreplay-trace"))
		ret = fail(w, -EINVAL,
			   "%s/manifest.json is not that of a trace: choose another "
			   "directory",
			   c->dir);
	else if (version != SR_TRACE_VERSION)
		ret = fail(w, -EPROTO,
			   "%s is a trace of version %lld, and this sreplay-logd writes "
			   "version %d: choose another directory",
			   c->dir, (long long)version, SR_TRACE_VERSION);
	json_decref(manifest);
	return ret;
}

/* By link(2) and not rename(2), so that the first of several manifests stays. */
static int make_manifest(int dir, const char *id)
{
	json_t *manifest = json_pack("{s:s, s:i, s:s}", "format", "sreplay-trace", "version",
				     SR_TRACE_VERSION, "writer", "sreplay-logd " SREPLAY_VERSION);
	char name[64];
	int err;

	snprintf(name, sizeof(name), ".manifest.%s", id);
	err = manifest ? write_json(dir, name, manifest) : -ENOMEM;
	json_decref(manifest);
	if (!err && linkat(dir, name, dir, "manifest.json", 0) && errno != EEXIST)
		err = -errno;
	unlinkat(dir, name, 0);
	return err;
}

static int open_trace(const struct rank_claim *c, const char *id, const struct sentence *w)
{
	int dir, err;

	if (mkdir(c->dir, DIR_MODE) && errno != EEXIST)
		return fail(w, -errno, "cannot make the trace's directory %s: %s", c->dir,
			    strerror(errno));
	dir = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return fail(w, -errno, "cannot open the trace's directory %s: %s", c->dir,
			    strerror(errno));
	if (!faccessat(dir, "manifest.json", F_OK, 0))
		err = check_manifest(c, dir, w);
	/* Once more: another rank, which begins the same trace now, may have made it meanwhile. */
	else if (holds_something_else(dir) && faccessat(dir, "manifest.json", F_OK, 0))
		err = fail(w, -ENOTEMPTY,
			   "%s is there already and is not a trace: choose another "
			   "directory",
			   c->dir);
	else if ((err = make_manifest(dir, id)))
		fail(w, err, "cannot write into the trace's directory %s: %s", c->dir,
		     strerror(-err));
	if (err) {
		close(dir);
		return err;
	}
	return dir;
}

/* ---- the rank ---- */

static void get_on(const struct rank_claim *c)
{
	if (c->steps)
		atomic_fetch_add(c->steps, 1);
}

static bool has_content(int fd, const char *text, size_t size)
{
	struct stat st;
	const void *found;
	bool same;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (size_t)st.st_size != size || !size)
		return false;
	found = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	same = found != MAP_FAILED && !memcmp(found, text, size);
	if (found != MAP_FAILED)
		munmap((void *)found, size);
	return same;
}

/*
 * The trace of a child lies in the directory of the process that forked it, which has the same schema:
 * a link takes neither time nor room.
 */
static bool share_schema(const struct rank_claim *c, int dir, int rank_fd)
{
	const char *base = strrchr(c->dir, '/');
	int fd = base && !strncmp(base + 1, SR_CHILD_PREFIX, strlen(SR_CHILD_PREFIX))
		     ? openat(dir, "../schema.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
		     : -1;
	bool shared = fd >= 0 && has_content(fd, c->schema, c->schema_size) &&
		      !linkat(dir, "../schema.json", rank_fd, "schema.json", 0);

	if (fd >= 0)
		close(fd);
	return shared;
}

static int fill_rank(const struct rank_claim *c, int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err, seal_err;

	if (fd < 0)
		return -errno;
	get_on(c);
	err = write_json(fd, "process.json", c->description);
	get_on(c);
	if (!err && !share_schema(c, dir, fd))
		err = write_text(fd, "schema.json", c->schema, c->schema_size);
	get_on(c);
	seal_err = err ? 0 : sr_seal_make(fd);
	get_on(c);
	if (seal_err)
		log_line("%s: rank %d is not sealed (%s): its replays will run in a sandbox, as those "
			 "of strangers' traces",
			 c->dir, c->rank, strerror(-seal_err));
	close(fd);
	return err;
}

static void remove_draft(int dir, const char *name)
{
	static const char *const files[] = {"process.json", "schema.json", SR_SEAL_FILE};
	char path[128];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		unlinkat(dir, path, 0);
	}
	unlinkat(dir, name, AT_REMOVEDIR);
}

static bool is_same_process(int rank_fd, const char *id)
{
	json_t *process = read_json(rank_fd, "process.json");
	const char *found = json_string_value(json_object_get(process, "process"));
	bool same = found && !strcmp(found, id);

	json_decref(process);
	return same;
}

/* The rank appears whole, by a rename that fails if it is there already. */
static int publish_rank(const struct rank_claim *c, int dir, const char *id, const char *rank_name)
{
	char draft[80];
	int err = 0;

	snprintf(draft, sizeof(draft), ".rank-%d.%s", c->rank, id);
	remove_draft(dir, draft); /* of a daemon that was killed within this */
	if (mkdirat(dir, draft, DIR_MODE))
		return -errno;
	err = fill_rank(c, dir, draft);
	if (!err && renameat(dir, draft, dir, rank_name))
		err = errno == ENOTEMPTY ? -EEXIST : -errno;
	if (err)
		remove_draft(dir, draft);
	return err;
}

static void rank_name(char name[64], int32_t rank, uint32_t image)
{
	int n = snprintf(name, 64, "rank-%d", rank);

	if (image)
		snprintf(name + n, 64 - (size_t)n, "/" SR_IMAGE_DIR, image);
}

/* The image before it must be that of the process that executed this one. */
static bool follows_image(const struct rank_claim *c, int dir)
{
	char name[64], id[33];
	bool follows;
	int fd;

	if (!c->image)
		return true;
	rank_name(name, c->rank, c->image->number - 1);
	process_id_text(id, c->image->before);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	follows = fd >= 0 && is_same_process(fd, id);
	if (fd >= 0)
		close(fd);
	return follows;
}

static int open_rank(const struct rank_claim *c, int dir, const char *id, const struct sentence *w)
{
	int fd, err = -EEXIST;
	char name[64];

	rank_name(name, c->rank, c->image ? c->image->number : 0);
	if (!follows_image(c, dir))
		return fail(w, -EEXIST,
			    "rank %d of %s is not the process that executed this program: choose "
			    "another rank (--rank) or another directory (-o)",
			    c->rank, c->dir);
	if (faccessat(dir, name, F_OK, 0))
		err = !c->description ? -ENOENT : publish_rank(c, dir, id, name);
	if (err && err != -EEXIST)
		return fail(w, err, "cannot write %s/%s: %s", c->dir, name, strerror(-err));
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail(w, -errno, "cannot open %s/%s: %s", c->dir, name, strerror(errno));
	if (err && !is_same_process(fd, id)) {
		close(fd);
		return fail(w, -EEXIST,
			    "rank %d of %s is recorded already: choose another rank "
			    "(--rank) or another directory (-o)",
			    c->rank, c->dir);
	}
	return fd;
}

int trace_dir_claim(const struct rank_claim *claim, int *trace_fd, int *rank_fd, char *error,
		    size_t error_size)
{
	const struct sentence w = {error, error_size};
	char id[33];

	process_id_text(id, claim->process);
	*trace_fd = open_trace(claim, id, &w);
	if (*trace_fd < 0)
		return *trace_fd;
	*rank_fd = open_rank(claim, *trace_fd, id, &w);
	if (*rank_fd >= 0)
		return 0;
	close(*trace_fd);
	*trace_fd = -1;
	return *rank_fd;
}
