/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/file_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logd/writer/process.h"

json_t *file_line_new(const char *file, const char *path, size_t path_bytes, uint64_t size,
		      uint64_t number)
{
	json_t *line = json_object();

	json_object_set_new(line, "file", json_string(file));
	json_object_set_new(line, "path", process_bytes(path, path_bytes));
	json_object_set_new(line, "size", json_integer((json_int_t)size));
	if (number)
		json_object_set_new(line, "note", json_integer((json_int_t)number));
	return line;
}

char *file_line_text(const json_t *line, size_t *size)
{
	const size_t flags = JSON_COMPACT | JSON_PRESERVE_ORDER;
	size_t n = json_dumpb(line, NULL, 0, flags);
	char *text = n ? malloc(n + 1) : NULL;

	if (!text)
		return NULL;
	json_dumpb(line, text, n, flags);
	text[n] = '\n';
	*size = n + 1;
	return text;
}

int file_lines_append(int rank_fd, const char *text, size_t size)
{
	int fd = openat(rank_fd, "files.jsonl",
			O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	int err = fd < 0 ? -errno : 0;
	ssize_t n = err ? 0 : write(fd, text, size);

	if (!err && n != (ssize_t)size)
		err = n < 0 ? -errno : -ENOSPC;
	if (fd >= 0)
		close(fd);
	return err;
}
