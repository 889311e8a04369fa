/* SPDX-License-Identifier: BSD-2-Clause */
/* files.jsonl: lines with the same "file" are about the same one. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "logd/trace/safe_file.h"

/* "files/HASH-SIZE" and nothing that leads elsewhere. */
static bool is_kept_name(const json_t *kept)
{
	const char *name = json_string_value(kept);

	return name && !strncmp(name, "files/", 6) && name[6] && name[6] != '.' &&
	       !strchr(name + 6, '/');
}

static bool is_line(const json_t *line)
{
	const json_t *kept = json_object_get(line, "kept");

	return json_is_string(json_object_get(line, "file")) && json_object_get(line, "path") &&
	       json_is_integer(json_object_get(line, "size")) && (!kept || is_kept_name(kept));
}

/* The first line about a file gives it its place in the list; later ones add to it. */
static void take_line(json_t *list, json_t *index, json_t *line)
{
	const char *file = json_string_value(json_object_get(line, "file"));
	json_t *known = json_object_get(index, file);

	if (known) {
		json_object_update(known, line);
	} else {
		json_object_set(index, file, line);
		json_array_append(list, line);
	}
}

/* A line is some hundred bytes, and there is one or two for each file. */
#define LINE_BYTES (64 << 10)
#define FILES_MAX  (1 << 20)

/* 1: text is the next line; 0: there is none; -EFBIG: it is longer. */
static int next_line(FILE *from, char text[LINE_BYTES], size_t *n)
{
	if (!fgets(text, LINE_BYTES, from))
		return 0;
	*n = strlen(text);
	return *n == LINE_BYTES - 1 && text[*n - 1] != '\n' ? -EFBIG : 1;
}

static int read_lines(FILE *from, const char *path, json_t *list, struct sr_error *err)
{
	json_t *index = json_object();
	char *text = malloc(LINE_BYTES);
	int ret = text ? 0 : sr_error_set(err, -ENOMEM, "no memory to read %s", path), got;
	size_t n = 0;

	for (int number = 1; !ret && (got = next_line(from, text, &n)); number++) {
		json_t *line = got < 0 ? NULL : json_loadb(text, n, 0, NULL);

		if (is_line(line) && json_array_size(list) < FILES_MAX)
			take_line(list, index, line);
		else if (got < 0 || !n || text[n - 1] == '\n')
			/* else it is still being written, or torn */
			ret = sr_error_set(err, -EBADMSG, "%s: line %d is damaged", path, number);
		json_decref(line);
	}
	free(text);
	json_decref(index);
	return ret;
}

json_t *sr_trace_files(const struct sr_trace *t, int32_t rank, struct sr_error *err)
{
	json_t *list = json_array();
	char path[PATH_MAX];
	FILE *from;
	int ret = 0, fd;

	sr_trace_rank_path(t, rank, "files.jsonl", path, sizeof(path));
	fd = sr_safe_open(path);
	from = fd < 0 ? NULL : fdopen(fd, "r");
	if (from) {
		ret = read_lines(from, path, list, err);
		fclose(from);
	} else if (fd != -ENOENT) {
		ret = sr_error_set(err, fd < 0 ? fd : -ENOMEM, "cannot read %s: %s", path,
				   fd < 0 ? sr_safe_reason(fd) : "no memory");
	}
	if (!ret)
		return list;
	json_decref(list);
	return NULL;
}

static void write_note(const json_t *file, char number[24])
{
	snprintf(number, 24, "%lld", (long long)json_integer_value(json_object_get(file, "note")));
}

json_t *sr_trace_kept_notes(const json_t *files)
{
	json_t *notes = json_object();
	const json_t *file;
	char number[24];
	size_t i;

	json_array_foreach(files, i, file)
	{
		write_note(file, number);
		if (json_is_string(json_object_get(file, "kept")))
			json_object_set_new(notes, number, json_true());
	}
	return notes;
}

bool sr_trace_is_kept(const json_t *notes, const json_t *file)
{
	char number[24];

	write_note(file, number);
	return json_is_string(json_object_get(file, "kept")) || (strcmp(number, "0") && json_object_get(notes, number));
}
