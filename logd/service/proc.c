/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/service/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void proc_name(char *name, size_t size, pid_t pid, const char *file)
{
	snprintf(name, size, "/proc/%d/%s", (int)pid, file);
}

char *proc_read(pid_t pid, const char *file, size_t *size)
{
	size_t room = 16 << 10, used = 0;
	char name[64], *text = NULL;
	ssize_t n = 1;
	int fd;

	proc_name(name, sizeof(name), pid, file);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	while (n > 0) {
		char *more = text && used + 1 < room ? text : realloc(text, room *= 2);

		if (!more)
			break;
		text = more;
		n = read(fd, text + used, room - used - 1);
		if (n > 0)
			used += (size_t)n;
	}
	close(fd);
	if (n != 0) {
		free(text);
		return NULL;
	}
	text[used] = 0;
	*size = used;
	return text;
}

uint64_t process_start_ticks(pid_t pid)
{
	unsigned long long ticks = 0;
	size_t size = 0;
	char *stat = proc_read(pid, "stat", &size);
	/* The name in parentheses may hold anything: fields are counted from its end. */
	const char *at = stat ? strrchr(stat, ')') : NULL;

	for (int field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (at)
		sscanf(at, "%llu", &ticks);
	free(stat);
	return ticks;
}

int process_path(pid_t pid, const char *path, char *absolute, size_t size)
{
	char name[64], cwd[PATH_MAX];
	ssize_t n;

	if (path[0] == '/')
		return snprintf(absolute, size, "%s", path) < (int)size ? 0 : -ENAMETOOLONG;
	proc_name(name, sizeof(name), pid, "cwd");
	n = readlink(name, cwd, sizeof(cwd) - 1);
	if (n < 0)
		return -errno;
	cwd[n] = 0;
	return snprintf(absolute, size, "%s/%s", cwd, path) < (int)size ? 0 : -ENAMETOOLONG;
}
