/* SPDX-License-Identifier: BSD-2-Clause */
/* file_lines.c: writes JSON without objects in between, since a program may read very many small files. */
#include "logd/writer/file_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logd/writer/process.h"

static bool make_room(struct file_lines *l, size_t n)
{
	size_t room = (l->size + n) * 2;
	char *more;

	if (l->size + n <= l->room)
		return true;
	more = realloc(l->text, room);
	if (!more)
		return false;
	l->text = more;
	l->room = room;
	return true;
}

static bool put(struct file_lines *l, const char *bytes, size_t n)
{
	if (!make_room(l, n))
		return false;
	memcpy(l->text + l->size, bytes, n);
	l->size += n;
	return true;
}

static bool put_text(struct file_lines *l, const char *text)
{
	return put(l, text, strlen(text));
}

/* Does JSON take these bytes as they are? */
static bool is_plain(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\')
			return false;
	return true;
}

/* Any bytes, as a string or what stands for one. */
static bool put_bytes(struct file_lines *l, const char *bytes, size_t n)
{
	json_t *value;
	char *text;
	bool ok;

	if (is_plain(bytes, n))
		return put(l, "\"", 1) && put(l, bytes, n) && put(l, "\"", 1);
	value = process_bytes(bytes, n);
	text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	ok = text && put_text(l, text);
	free(text);
	json_decref(value);
	return ok;
}

/* name: with the comma in front and the colon behind */
static bool put_string(struct file_lines *l, const char *name, const char *value)
{
	return !value || (put_text(l, name) && put_bytes(l, value, strlen(value)));
}

static bool put_number(struct file_lines *l, const char *name, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	return put_text(l, name) && put_text(l, digits);
}

static bool put_line(struct file_lines *l, const struct file_line *line)
{
	return put_string(l, "{\"file\":", line->file) && put_text(l, ",\"path\":") &&
	       put_bytes(l, line->path, line->path_bytes) && put_number(l, ",\"size\":", line->size) &&
	       (!line->number || put_number(l, ",\"note\":", line->number)) &&
	       (!line->changed || put_text(l, ",\"changed\":true")) && put_string(l, ",\"xxh3\":", line->xxh3) &&
	       put_string(l, ",\"samples\":", line->samples) && put_string(l, ",\"kept\":", line->kept) &&
	       put_string(l, ",\"error\":", line->error) && put(l, "}\n", 2);
}

int file_lines_add(struct file_lines *l, const struct file_line *line)
{
	const size_t before = l->size;

	if (put_line(l, line))
		return 0;
	l->size = before;
	return -ENOMEM;
}

int file_lines_append(int rank_fd, const struct file_lines *l)
{
	int fd = openat(rank_fd, "files.jsonl",
			O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	int err = fd < 0 ? -errno : 0;
	ssize_t n = err ? 0 : write(fd, l->text, l->size);

	if (!err && n != (ssize_t)l->size)
		err = n < 0 ? -errno : -ENOSPC;
	if (fd >= 0)
		close(fd);
	return err;
}

void file_lines_free(struct file_lines *l)
{
	free(l->text);
	*l = (struct file_lines){0};
}
