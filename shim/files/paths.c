/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/paths.h"

#include <fcntl.h>
#include <stdio.h>

#include "logd/base/highfd.h"
#include "logd/base/rawsys.h"

#define OWN_FILES "/proc/self/fd/"

static int directory = -1;

void sr_paths_start(void)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(OWN_FILES), O_PATH | O_DIRECTORY | O_CLOEXEC,
			     0, 0, 0);

	directory = fd < 0 ? -1 : sr_fd_raise((int)fd);
}

void sr_paths_stop(void)
{
	if (directory >= 0)
		sr_sys_close(directory);
	directory = -1;
}

int sr_paths_own_fd(void)
{
	return directory;
}

void sr_find_path(int fd, char *path, size_t size)
{
	char name[sizeof(OWN_FILES) + 20];
	long n;

	snprintf(name, sizeof(name), "%s%d", directory < 0 ? OWN_FILES : "", fd);
	n = sr_syscall(SYS_readlinkat, directory < 0 ? AT_FDCWD : directory, SR_ARG(name),
		       SR_ARG(path), (long)size, 0, 0);
	path[n > 0 && n < (long)size ? n : 0] = 0;
}
