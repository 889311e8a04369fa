/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * safe_file.h: opens the files of a trace, which a stranger may have made: regular files only, at
 * their names and not where a link leads, and no more of them than there can be.
 *
 * Any thread; not in recorded processes.
 */
#ifndef LOGD_TRACE_SAFE_FILE_H
#define LOGD_TRACE_SAFE_FILE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A descriptor, the caller's to close; or -errno.  -EMEDIUMTYPE: it is no regular file.  Links
 * that lead to the file's directory are followed.
 */
int sr_safe_open(const char *path);

/*
 * All of a file of `most` bytes at most, with a 0 behind it: malloc'ed in *text.  0 or -errno;
 * -EFBIG: it is larger.
 */
int sr_safe_read(const char *path, uint64_t most, char **text, size_t *size);

/*
 * The JSON in a file of `most` bytes at most; *values is lowered by how many values it may hold, and
 * a file of more is refused (-EFBIG), because each costs a hundred times its text in memory.
 * -EBADMSG: *line and *why say what is wrong.
 */
struct sr_safe_json {
	json_t *root; /* the caller's */
	int line;
	char why[160];
};
int sr_safe_json(const char *path, uint64_t most, size_t *values, struct sr_safe_json *to);

/* How many values there may be in a JSON text. */
size_t sr_safe_json_values(const char *text, size_t size);

/* What -errno of these functions means. */
const char *sr_safe_reason(int err);

#endif
