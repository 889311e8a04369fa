/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs.c: files of sysfs, which programs and libraries let libibverbs read. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *folder, const char *name, char *text, size_t size);

const char *ibv_get_sysfs_path(void)
{
	static char kept[PATH_MAX];
	const char *path = getuid() == geteuid() ? getenv("SYSFS_PATH") : NULL;
	size_t length = path ? strlen(path) : 0;

	if (!length || length >= sizeof(kept))
		return "/sys";
	memcpy(kept, path, length + 1);
	while (length > 1 && kept[length - 1] == '/')
		kept[--length] = 0;
	return kept;
}

/* The length without the newline at the end, or -1. */
int ibv_read_sysfs_file(const char *folder, const char *name, char *text, size_t size)
{
	char path[PATH_MAX];
	ssize_t length;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	length = read(fd, text, size);
	close(fd);
	if (length <= 0)
		return -1;
	if (text[length - 1] == '\n')
		text[--length] = 0;
	else if ((size_t)length < size)
		text[length] = 0;
	else
		return -1;
	return (int)length;
}
