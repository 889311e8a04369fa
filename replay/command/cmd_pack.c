/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_pack.c: `sreplay pack`: puts the executables, libraries and inputs of the recorded programs into the trace. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/objects.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/command/pack_loaded.h"
#include "replay/command/visit.h"
#include "replay/print/json.h"
#include "replay/host/start/packed.h"
#include "replay/traces/keep_inputs.h"

/* As traces are: for this user only.  An executable is executed in its place. */
#define FILE_MODE 0500
/* Of one program's executables and libraries. */
#define MOST_DIRECTORIES 64

static const struct argp_child children[] = {{&sr_choice_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    NULL,
    sr_parse_choice_only,
    "DIR.srec",
    "Copy the executables and libraries that the recorded programs used, and the files that they read, into the trace. A "
    "replay uses them, in a sandbox, where the installed ones are missing or have changed.",
    children,
    NULL,
    NULL,
};

struct pack {
	const char *dir;
	int trace; /* its directory */
	json_t *loaded; /* by dlopen: {"path": } of each */
	size_t files;
	uint64_t bytes;
};

/* -errno. */
static int copy_bytes(int from, int to, uint64_t *bytes)
{
	ssize_t n;

	while ((n = sendfile(to, from, NULL, 1 << 20)) > 0)
		*bytes += (uint64_t)n;
	return n < 0 ? -errno : 0;
}

/* The file appears whole, or not at all. */
static int copy(struct pack *p, int from, int to, const char *name)
{
	char draft[32];
	int fd, err;

	snprintf(draft, sizeof(draft), ".draft.%d", (int)getpid());
	unlinkat(to, draft, 0);
	fd = openat(to, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return -errno;
	lseek(from, 0, SEEK_SET);
	err = copy_bytes(from, fd, &p->bytes);
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(to, draft, to, name))
		err = -errno;
	if (err)
		unlinkat(to, draft, 0);
	return err;
}

static int pack_file(struct pack *p, const char *path, int from)
{
	int to = sr_packed_make_directory(p->trace, path), err;

	if (to < 0)
		return sr_fail("cannot make %s/" SR_PACKED ": %s", p->dir, strerror(-to));
	err = copy(p, from, to, strrchr(path, '/') + 1);
	close(to);
	p->files += !err;
	return err ? sr_fail("%s cannot be packed: %s", path, strerror(-err)) : 0;
}

static int pack_object(struct pack *p, const json_t *object, const char *path)
{
	struct sr_object_identity id;
	int fd, status = 0;

	if (!sr_packed_may_be(path) || sr_packed_has(p->dir, object, path))
		return 0;
	fd = sr_object_open(path);
	if (fd < 0)
		return sr_fail("%s cannot be packed: %s", path, strerror(-fd));
	if (!sr_object_is_same_file(fd, object, &id))
		status = sr_fail("%s cannot be packed any more: its %s is %s, recorded was %s", path,
				 id.what, id.now, id.recorded);
	else
		status = pack_file(p, path, fd);
	close(fd);
	return status;
}

/* Ranks that ran other versions of one file: only one version can be in its place. */
static int check_version(struct pack *p, const json_t *object, const char *path)
{
	if (!sr_packed_may_be(path) || sr_packed_has(p->dir, object, path))
		return 0;
	return sr_fail("%s: the ranks used different versions of %s, of which only "
		       "one can be packed: make a trace of these ranks alone",
		       p->dir, path);
}

typedef int (*visit)(struct pack *p, const json_t *object, const char *path);

/* All of them, also behind one that fails. */
static int each_object(struct pack *p, const json_t *objects, visit what)
{
	const json_t *object;
	int status = 0;
	size_t i;

	json_array_foreach(objects, i, object)
	{
		char *path = sr_trace_bytes(json_object_get(object, "path"), NULL);

		if (path && what(p, object, path))
			status = SR_EXIT_FAILED;
		free(path);
	}
	return status;
}

/* ------------------------------------------------------------------- links */

static bool is_object(const json_t *objects, const char *path)
{
	const json_t *object;
	bool is = false;
	size_t i;

	json_array_foreach(objects, i, object)
	{
		char *of = sr_trace_bytes(json_object_get(object, "path"), NULL);

		is |= of && !strcmp(of, path);
		free(of);
	}
	return is;
}

/*
 * A link again, which leads to the file in its place: the library that ld.so finds by it has its own name, by which a replay knows
 * at which address it belongs.  -errno.
 */
static int pack_link(const struct pack *p, const char *file, const char *link)
{
	const char *name = strrchr(file, '/') + 1, *link_name = strrchr(link, '/') + 1;
	bool same = name - file == link_name - link && !strncmp(file, link, (size_t)(name - file));
	int to = sr_packed_make_directory(p->trace, link), err;

	if (to < 0)
		return to;
	err = symlinkat(same ? name : file, to, link_name) && errno != EEXIST ? -errno : 0;
	close(to);
	return err;
}

static int pack_links_in(const struct pack *p, const json_t *objects, const char *directory)
{
	char link[2 * PATH_MAX], real[PATH_MAX];
	DIR *list = opendir(directory);
	struct dirent *entry;
	int err = 0;

	while (list && !err && (entry = readdir(list))) {
		if (entry->d_type != DT_LNK)
			continue;
		snprintf(link, sizeof(link), "%s%s", directory, entry->d_name);
		if (realpath(link, real) && sr_packed_may_be(real) && is_object(objects, real))
			err = pack_link(p, real, link);
		if (err)
			sr_fail("the link %s cannot be packed: %s", link, strerror(-err));
	}
	if (list)
		closedir(list);
	return err ? SR_EXIT_FAILED : 0;
}

/*
 * The linker looks for a library under the name of a link to it, which may lie in the directory of another library, and a program
 * may be run by one.
 */
static int pack_links(const struct pack *p, const json_t *objects)
{
	char *directories[MOST_DIRECTORIES];
	const json_t *object;
	int n = 0, status = 0;
	size_t i;

	json_array_foreach(objects, i, object)
	{
		char *path = n < MOST_DIRECTORIES ? sr_trace_bytes(json_object_get(object, "path"), NULL) : NULL;
		bool is_new = path && sr_packed_may_be(path);

		if (is_new)
			strrchr(path, '/')[1] = '\0';
		for (int k = 0; k < n; k++)
			is_new = is_new && strcmp(directories[k], path);
		if (is_new)
			directories[n++] = path;
		else
			free(path);
	}
	for (int k = 0; k < n; k++) {
		status = status ? status : pack_links_in(p, objects, directories[k]);
		free(directories[k]);
	}
	return status;
}

/* Of the chosen image.  Among what it read are libraries. */
static int pack_inputs(struct pack *p, struct sr_trace *t, int32_t rank)
{
	json_t *libraries = json_copy(json_object_get(sr_trace_process(t, rank), "objects"));
	struct sr_kept_inputs sum = {0};
	int status = sr_keep_inputs(t, rank, &sum) ? 0 : SR_EXIT_FAILED, err;

	p->files += sum.files;
	p->bytes += sum.bytes;
	err = sr_pack_loaded(p->trace, t, rank, p->loaded);
	if (err)
		status = sr_fail("%s: the libraries that rank %d loaded cannot be packed: %s", p->dir, rank, strerror(-err));
	json_array_extend(libraries, p->loaded);
	if (pack_links(p, libraries))
		status = SR_EXIT_FAILED;
	json_decref(libraries);
	return status;
}

/* Calls the function with what each image of each rank used.  inputs: and packs what each read. */
static int for_each(struct pack *p, struct sr_trace *t, const struct sr_choice *c, visit what, bool inputs)
{
	struct sr_error err;
	int status = 0;

	for (size_t i = 0; i < sr_trace_ranks(t); i++) {
		int32_t rank = sr_trace_rank_number(t, i);

		if (c->rank >= 0 && c->rank != rank)
			continue;
		for (uint32_t image = 0; image < sr_trace_images(t, rank); image++) {
			if (sr_trace_choose_image(t, rank, image, &err))
				status = sr_fail("%s", err.text);
			else if (each_object(p, json_object_get(sr_trace_process(t, rank), "objects"), what) || (inputs && pack_inputs(p, t, rank)))
				status = SR_EXIT_FAILED;
		}
	}
	return status;
}

int sr_cmd_pack(int argc, char **argv)
{
	struct sr_choice c = SR_CHOICE_INIT;
	struct pack p = {.trace = -1};
	struct sr_trace *t;
	struct sr_error err;
	int status, err_number;

	if (sr_argp_parse(&argp, argc, argv, 0, &c))
		return SR_EXIT_FAILED;
	if (sr_trace_open(&t, c.dir, &err))
		return sr_fail("%s", err.text);
	p.dir = c.dir;
	p.loaded = json_array();
	p.trace = open(c.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	status = p.trace < 0 ? sr_fail("%s: %s", c.dir, strerror(errno))
			     : for_each(&p, t, &c, pack_object, true);
	if (!status)
		status = for_each(&p, t, &c, check_version, false);
	if (!status && (err_number = sr_pack_list_loaded(p.trace, c.dir, p.loaded)))
		status = sr_fail("%s/" SR_PACKED_LOADED ": %s", c.dir, strerror(-err_number));
	json_decref(p.loaded);
	if (!status && c.json)
		sr_json_print(json_pack("{s:o, s:I, s:I}", "trace", sr_json_string(c.dir), "files",
					(json_int_t)p.files, "bytes", (json_int_t)p.bytes));
	else if (!status)
		printf("%s: %zu files packed, %.1f MB\n", c.dir, p.files, (double)p.bytes / 1e6);
	if (p.trace >= 0)
		close(p.trace);
	sr_trace_close(t);
	return status;
}
