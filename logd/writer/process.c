/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/process.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "logd/base/hex.h"
#include "logd/service/proc.h"
#include "logd/trace/elf_id.h"
#include "logd/trace/file_hash.h"
#include "logd/writer/layer_path.h"
#include "logd/writer/trace_dir.h"

/* ---- bytes in JSON ---- */

json_t *process_bytes(const char *bytes, size_t size)
{
	json_t *string = memchr(bytes, 0, size) ? NULL : json_stringn(bytes, size);
	char *hex;

	if (string) /* it was UTF-8 */
		return string;
	hex = calloc(1, 2 * size + 1);
	if (!hex)
		return NULL;
	sr_to_hex(hex, bytes, size);
	string = json_pack("{s:s}", "hex", hex);
	free(hex);
	return string;
}

/* ---- files in /proc/PID ---- */

static bool has_own(const struct process_facts *f, enum sr_fact which)
{
	return f->own && f->own[which].iov_len;
}

static json_t *proc_link(const struct process_facts *f, enum sr_fact which, const char *file)
{
	char name[64], target[PATH_MAX];
	ssize_t n;

	if (has_own(f, which))
		return process_bytes(f->own[which].iov_base, f->own[which].iov_len);
	proc_name(name, sizeof(name), f->pid, file);
	n = readlink(name, target, sizeof(target));
	return n < 0 ? json_null() : process_bytes(target, (size_t)n);
}

/* A list of 0-terminated strings. */
static json_t *strings(const char *text, size_t size)
{
	json_t *list = json_array();

	for (size_t at = 0; text && at < size;) {
		size_t length = strnlen(text + at, size - at);

		json_array_append_new(list, process_bytes(text + at, length));
		at += length + 1;
	}
	return list;
}

static json_t *proc_strings(pid_t pid, const char *file)
{
	size_t size = 0;
	char *text = proc_read(pid, file, &size);
	json_t *list = strings(text, size);

	free(text);
	return list;
}

static json_t *environment(const struct process_facts *f)
{
	if (has_own(f, SR_FACT_ENVIRONMENT))
		return strings(f->own[SR_FACT_ENVIRONMENT].iov_base, f->own[SR_FACT_ENVIRONMENT].iov_len);
	return proc_strings(f->pid, "environ");
}

/* ---- mapped files ---- */

struct mapping {
	unsigned long long start, end, offset;
	char permissions[5];
	const char *path;
};

/* False: not a line that maps a file. */
static bool parse_mapping(const char *line, struct mapping *m)
{
	int path = 0;

	if (sscanf(line, "%llx-%llx %4s %llx %*s %*s %n", &m->start, &m->end, m->permissions,
		   &m->offset, &path) < 4 ||
	    !path)
		return false;
	m->path = line + path;
	return m->path[0] == '/';
}

/* A regular file, or -1: what stands at a path now may be a FIFO, whose open or read waits. */
static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return -1;
}

/* What identifies the file's content; false if it is no ELF file. */
static bool add_identity(json_t *object, pid_t pid, const struct mapping *m)
{
	char name[96], hex[130];
	bool elf = false;
	int fd;

	/* Through the mapping itself: the path may name another file by now, or in another root. */
	snprintf(name, sizeof(name), "/proc/%d/map_files/%llx-%llx", (int)pid, m->start, m->end);
	fd = open_file(name);
	if (fd < 0)
		fd = open_file(m->path);
	if (fd < 0)
		return false;
	elf = is_elf(fd);
	if (elf && elf_build_id(fd, hex, sizeof(hex)))
		json_object_set_new(object, "build_id", json_string(hex));
	else if (elf && file_hash(fd, hex))
		json_object_set_new(object, "xxh3", json_string(hex));
	close(fd);
	return elf;
}

static void add_range(json_t *object, const struct mapping *m)
{
	json_array_append_new(json_object_get(object, "ranges"),
			      json_pack("{s:I, s:I, s:I, s:s}", "start", (json_int_t)m->start,
					"end", (json_int_t)m->end, "offset", (json_int_t)m->offset,
					"permissions", m->permissions));
	if (m->offset == 0 && !json_object_get(object, "load_address"))
		json_object_set_new(object, "load_address", json_integer((json_int_t)m->start));
}

static json_t *new_object(pid_t pid, const struct mapping *given, const char *mounts)
{
	struct mapping there = *given, *m = &there;
	json_t *object = json_object();
	char found[PATH_MAX];

	if (layer_path(mounts, m->path, found))
		m->path = found;
	json_object_set_new(object, "path", process_bytes(m->path, strlen(m->path)));
	if (!add_identity(object, pid, m)) {
		json_decref(object);
		return NULL;
	}
	json_object_set_new(object, "ranges", json_array());
	return object;
}

static char *read_text(const struct process_facts *f, enum sr_fact which, const char *file)
{
	size_t size;

	if (has_own(f, which))
		return strndup(f->own[which].iov_base, f->own[which].iov_len);
	return proc_read(f->pid, file, &size);
}

/* Mappings of one file stand next to each other in maps. */
static json_t *mapped_objects(const struct process_facts *f)
{
	pid_t pid = f->pid;
	json_t *list = json_array(), *object = NULL;
	char *maps = read_text(f, SR_FACT_MAPS, "maps"), *mounts = read_text(f, SR_FACT_MOUNTS, "mountinfo"), *rest = maps, *line;
	const char *path = "";
	struct mapping m;

	while (maps && (line = strsep(&rest, "\n"))) {
		if (!parse_mapping(line, &m))
			continue;
		if (strcmp(path, m.path)) {
			path = m.path;
			object = new_object(pid, &m, mounts);
			if (f->steps)
				atomic_fetch_add(f->steps, 1);
			if (object)
				json_array_append_new(list, object);
		}
		if (object)
			add_range(object, &m);
	}
	free(maps);
	free(mounts);
	return list;
}

/* ---- when and where ---- */

static json_t *now_text(void)
{
	time_t now = time(NULL);
	char text[32];
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(text, sizeof(text), "%FT%TZ", &tm);
	return json_string(text);
}

static void add_host(json_t *process)
{
	struct utsname u;

	if (uname(&u))
		return;
	json_object_set_new(process, "hostname", json_string(u.nodename));
	json_object_set_new(process, "kernel",
			    json_pack("{s:s, s:s, s:s}", "release", u.release, "version", u.version,
				      "machine", u.machine));
}

/* ---- the whole ---- */

static json_t *parse_extra(const struct process_facts *f, char *error, size_t error_size)
{
	json_error_t wrong;
	json_t *extra;

	if (!f->extra_size)
		return json_object();
	extra = json_loadb(f->extra, f->extra_size, 0, &wrong);
	if (!json_is_object(extra)) {
		snprintf(error, error_size, "the process's own description is no JSON object: %s",
			 extra ? "another value" : wrong.text);
		json_decref(extra);
		return NULL;
	}
	return extra;
}

json_t *process_describe(const struct process_facts *f, char *error, size_t error_size)
{
	json_t *extra = parse_extra(f, error, error_size), *p;
	char id[33];

	if (!extra)
		return NULL;
	p = json_object();
	process_id_text(id, f->id);
	json_object_set_new(p, "process", json_string(id));
	json_object_set_new(p, "rank", json_integer(f->rank));
	if (f->image) {
		json_object_set_new(p, "image", json_integer(f->image->number));
		json_object_set_new(p, "sns_before", json_integer((json_int_t)f->image->sns));
	}
	if (f->parent) {
		process_id_text(id, f->parent->before);
		json_object_set_new(p, "child", json_integer(f->parent->number));
		json_object_set_new(p, "parent", json_string(id));
		json_object_set_new(p, "forked_by", json_integer(f->parent->thread));
		json_object_set_new(p, "sns_before", json_integer((json_int_t)f->parent->sns));
	}
	json_object_set_new(p, "flags", json_integer(f->flags));
	json_object_set_new(p, "stack", json_integer((json_int_t)f->stack));
	json_object_set_new(p, "pid", json_integer(f->pid));
	json_object_set_new(p, "start_ticks",
			    json_integer((json_int_t)process_start_ticks(f->pid)));
	json_object_set_new(p, "started", now_text());
	add_host(p);
	json_object_set_new(p, "executable", proc_link(f, SR_FACT_EXECUTABLE, "exe"));
	json_object_set_new(p, "directory", proc_link(f, SR_FACT_DIRECTORY, "cwd"));
	json_object_set_new(p, "arguments", proc_strings(f->pid, "cmdline"));
	json_object_set_new(p, "environment", environment(f));
	json_object_set_new(p, "objects", mapped_objects(f));
	json_object_set_new(p, "extra", extra);
	return p;
}
