/* SPDX-License-Identifier: BSD-2-Clause */
/* file_lines.h: the lines of files.jsonl, which say what files a process has read.  Any thread. */
#ifndef LOGD_WRITER_FILE_LINES_H
#define LOGD_WRITER_FILE_LINES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* `file` identifies file and content: all lines about the same have the same. */
json_t *file_line_new(const char *file, const char *path, size_t path_bytes, uint64_t size,
		      uint64_t number);

/* The text of the line with its end, which the caller frees; *size: its bytes.  NULL: no memory. */
char *file_line_text(const json_t *line, size_t *size);

/* Whole lines, in one write: a killed daemon leaves them or a torn one, which readers ignore. */
int file_lines_append(int rank_fd, const char *text, size_t size);

#endif
