/* SPDX-License-Identifier: BSD-2-Clause */
/* file_lines.h: the lines of files.jsonl, which say what files a process has read.  Any thread. */
#ifndef LOGD_WRITER_FILE_LINES_H
#define LOGD_WRITER_FILE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a line says.  NULL, 0 and false: it does not. */
struct file_line {
	const char *file; /* identifies file and content: all lines about the same have the same */
	const char *path;
	size_t path_bytes;
	uint64_t size, number;
	bool changed;
	const char *xxh3, *samples, *kept, *error;
};

/* Lines that are written together.  Zeroed at first. */
struct file_lines {
	char *text;
	size_t size, room;
};

/* -ENOMEM: they are as before. */
int file_lines_add(struct file_lines *lines, const struct file_line *line);

/* In one write: a killed daemon leaves them whole or torn, and readers ignore a torn one. */
int file_lines_append(int rank_fd, const struct file_lines *lines);

void file_lines_free(struct file_lines *lines);

#endif
