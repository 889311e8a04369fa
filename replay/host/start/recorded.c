/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/recorded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logd/base/decimal.h"
#include "logd/base/hex.h"
#include "replay/analysis/log/objects.h"
#include "replay/host/start/packed.h"
#include "replay/print/say.h"

static char *text_of(const json_t *json, const char *key)
{
	return sr_trace_bytes(json_object_get(json, key), NULL);
}

/* A NULL-terminated vector of the strings; NULL if they are not strings. */
static char **vector_of(const json_t *json, const char *key)
{
	json_t *list = json_object_get(json, key);
	size_t n = json_array_size(list);
	char **v = calloc(n + 1, sizeof(*v));

	if (!json_is_array(list) || !v) {
		free(v);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		v[i] = sr_trace_bytes(json_array_get(list, i), NULL);
		if (!v[i]) {
			while (i)
				free(v[--i]);
			free(v);
			return NULL;
		}
	}
	return v;
}

static void free_vector(char **v)
{
	for (char **p = v; p && *p; p++)
		free(*p);
	free(v);
}

static uint64_t number_of(const json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));

	return text ? strtoull(text, NULL, 0) : 0;
}

static void load_files(struct sr_layout *l, const json_t *objects)
{
	const json_t *object, *ranges, *lowest, *highest;
	char *path;
	size_t i;

	l->files = calloc(json_array_size(objects) + 1, sizeof(*l->files));
	json_array_foreach(objects, i, object)
	{
		ranges = json_object_get(object, "ranges");
		lowest = json_array_get(ranges, 0);
		highest = json_array_get(ranges, json_array_size(ranges) - 1);
		path = l->files && lowest ? text_of(object, "path") : NULL;
		if (path)
			l->files[l->n_files++] = (struct sr_layout_file){
			    .path = path,
			    .start = (uint64_t)json_integer_value(json_object_get(lowest, "start")),
			    .end = (uint64_t)json_integer_value(json_object_get(highest, "end")),
			    .offset = (uint64_t)json_integer_value(json_object_get(lowest, "offset")),
			};
	}
}

static void free_files(struct sr_layout *l)
{
	for (size_t i = 0; i < l->n_files; i++)
		free(l->files[i].path);
	free(l->files);
}

/*
 * Without the system-call trap libc asked the vDSO for the time: it stays where this kernel has
 * it.
 */
static void load_layout(struct sr_layout *l, const json_t *json)
{
	const json_t *extra = json_object_get(json, "extra");
	const char *random = json_string_value(json_object_get(extra, "random"));

	if (!json_is_true(json_object_get(extra, "syscall_trap")) || !random ||
	    !sr_from_hex(random, l->random, sizeof(l->random)))
		return;
	l->libraries_below = number_of(extra, "libraries_below");
	l->vdso = number_of(extra, "vdso");
	l->program = number_of(extra, "program");
	l->loader = number_of(extra, "loader");
	l->program_break = number_of(extra, "program_break");
	l->stack = number_of(extra, "stack");
	l->stack_top = number_of(extra, "stack_top");
	l->random_at = number_of(extra, "random_at");
	l->platform = number_of(extra, "platform");
	l->signal_frame = number_of(extra, "signal_frame");
	load_files(l, json_object_get(json, "objects"));
}

/* "5,6=1"; what is malformed, and what follows it, counts as closed. */
static void load_inherited(uint8_t inherited[SR_INHERITED_FDS], const json_t *extra)
{
	const char *at = json_string_value(json_object_get(extra, "descriptors"));
	long fd, like;

	while (at && sr_decimal(&at, SR_INHERITED_FDS - 1, &fd)) {
		bool is_copy = *at == '=';

		if (is_copy && (at++, !sr_decimal(&at, STDERR_FILENO, &like)))
			return;
		inherited[fd] = is_copy ? (uint8_t)(SR_INHERITED_COPY + like) : SR_INHERITED_CAPTURED;
		at += *at == ',';
	}
}

/* A malformed table counts as none. */
static void load_processor(struct sr_processor *p, const json_t *extra)
{
	const char *text = json_string_value(json_object_get(extra, "cpuid"));
	size_t bytes = text ? strlen(text) / 2 : 0;

	p->entries = 0;
	if (bytes && bytes <= sizeof(p->entry) && bytes % sizeof(p->entry[0]) == 0 &&
	    sr_from_hex(text, (uint8_t *)p->entry, bytes))
		p->entries = (uint32_t)(bytes / sizeof(p->entry[0]));
}

bool sr_recorded_load(struct sr_recorded *r, const struct sr_trace *t, int32_t rank,
		      const char *dir)
{
	const json_t *json = sr_trace_process(t, rank);
	const json_t *extra = json_object_get(json, "extra");
	const char *limit = json_string_value(json_object_get(extra, "stack_limit"));
	const char *main_stack = json_string_value(json_object_get(extra, "main_stack"));
	const char *threads = json_string_value(json_object_get(extra, "threads"));

	*r = (struct sr_recorded){
	    .json = json,
	    .exe = text_of(json, "executable"),
	    .cwd = text_of(json, "directory"),
	    .argv = vector_of(json, "arguments"),
	    .env = vector_of(json, "environment"),
	    .executed_as = text_of(extra, "executed_as"),
	    .stack_limit = limit ? strtoull(limit, NULL, 10) : 0,
	    .main_stack = main_stack ? strtoull(main_stack, NULL, 0) : 0,
	    .descriptors_below =
		(int)json_integer_value(json_object_get(extra, "descriptors_below")),
	    .pid = (int)json_integer_value(json_object_get(extra, "pid")),
	    .tsc = json_is_true(json_object_get(extra, "tsc")),
	    .trap = json_is_true(json_object_get(extra, "syscall_trap")),
	    .huge_pages = json_is_true(json_object_get(extra, "huge_pages")),
	    .serial = threads && !strcmp(threads, "serial"),
	    .ignored = number_of(extra, "ignored"),
	    .blocked = number_of(extra, "blocked"),
	    .stdout_line_buffered = json_is_true(json_object_get(extra, "stdout_line_buffered")),
	};
	load_layout(&r->layout, json);
	load_processor(&r->processor, extra);
	load_inherited(r->inherited, extra);
	if (json_string_value(json_object_get(extra, "recorded_from")) &&
	    !strcmp(json_string_value(json_object_get(extra, "recorded_from")), "open"))
		r->from_open = true;
	if (r->exe && r->cwd && r->argv && r->env &&
	    json_is_array(json_object_get(json, "objects")))
		return true;
	sr_fail("%s/rank-%d/process.json is damaged: executable, directory, arguments, environment "
		"or objects is missing; record the program again",
		dir, rank);
	sr_recorded_free(r);
	return false;
}

void sr_recorded_free(struct sr_recorded *r)
{
	free(r->exe);
	free(r->executed_as);
	free(r->cwd);
	free_vector(r->argv);
	free_vector(r->env);
	free_files(&r->layout);
}

static bool same_identity(int fd, const json_t *object, const char *path)
{
	struct sr_object_identity id;

	if (sr_object_is_same_file(fd, object, &id))
		return true;
	sr_fail("%s is not the file that was recorded: its %s is %s, recorded was %s; replay needs "
		"the same one",
		path, id.what, id.now, id.recorded);
	return false;
}

bool sr_recorded_check_files(const struct sr_recorded *r, const char *trace)
{
	const json_t *object;
	bool good = true;
	size_t i;

	json_array_foreach(json_object_get(r->json, "objects"), i, object)
	{
		char *path = text_of(object, "path");
		int fd = path ? sr_object_open(path) : -EINVAL;

		if (path && sr_packed_has(trace, object, path)) {
			if (fd >= 0)
				close(fd);
		} else if (fd < 0) {
			sr_fail("%s, which the recorded program used, cannot be read: %s",
				path ? path : "a file", strerror(-fd));
			good = false;
		} else {
			good = same_identity(fd, object, path) && good;
			close(fd);
		}
		free(path);
	}
	return good;
}
