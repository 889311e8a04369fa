/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/safe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sr_safe_open(const char *path)
{
	/* O_NONBLOCK: a FIFO would wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return errno == ELOOP || errno == ENXIO ? -EMEDIUMTYPE : -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EMEDIUMTYPE;
}

/* The file may grow or shrink meanwhile. */
static int read_up_to(int fd, char *text, size_t room, size_t *size)
{
	*size = 0;
	while (*size < room) {
		ssize_t n = read(fd, text + *size, room - *size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		*size += (size_t)n;
	}
	text[*size] = 0;
	return 0;
}

int sr_safe_read(const char *path, uint64_t most, char **text, size_t *size)
{
	int fd = sr_safe_open(path), err;
	struct stat st;

	*text = NULL;
	if (fd < 0)
		return fd;
	err = fstat(fd, &st) ? -errno : (uint64_t)st.st_size > most ? -EFBIG : 0;
	if (!err && !(*text = malloc((size_t)st.st_size + 1)))
		err = -ENOMEM;
	if (!err)
		err = read_up_to(fd, *text, (size_t)st.st_size, size);
	close(fd);
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}

size_t sr_safe_json_values(const char *text, size_t size)
{
	bool in_string = false;
	size_t n = 1;

	for (size_t i = 0; i < size; i++) {
		if (in_string && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_string = !in_string;
		else if (!in_string && strchr("[{,:", text[i]))
			n++;
	}
	return n;
}

int sr_safe_json(const char *path, uint64_t most, size_t *values, struct sr_safe_json *to)
{
	json_error_t wrong;
	size_t size, n;
	char *text;
	int err;

	*to = (struct sr_safe_json){.line = -1};
	err = sr_safe_read(path, most, &text, &size);
	if (!err) {
		n = sr_safe_json_values(text, size);
		err = n > *values ? -EFBIG : 0;
		*values -= err ? 0 : n;
	}
	if (!err) {
		to->root = json_loadb(text, size, 0, &wrong);
		to->line = wrong.line;
		err = to->root ? 0 : -EBADMSG;
	}
	snprintf(to->why, sizeof(to->why), "%s",
		 err == -EBADMSG ? wrong.text : err ? sr_safe_reason(err) : "");
	free(text);
	return err;
}

const char *sr_safe_reason(int err)
{
	return err == -EMEDIUMTYPE ? "it is not a regular file" : strerror(-err);
}
