/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/own_memory.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/files/fds.h"
#include "shim/files/paths.h"

bool sr_own_memory_path(const char *path)
{
	char own[40];

	snprintf(own, sizeof(own), "/proc/%ld/mem", sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0));
	return !strcmp(path, own);
}

/* Most programs never open it. */
static atomic_bool any;

void sr_own_memory_hold(int fd)
{
	long memory = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/mem"), O_RDWR | O_CLOEXEC, 0, 0, 0);

	if (memory < 0) {
		sr_fd_hold(fd);
		return;
	}
	atomic_store_explicit(&any, true, memory_order_relaxed);
	sr_fd_renumber((int)memory, fd);
	sr_fd_capture(fd);
}

bool sr_own_memory_held(int fd)
{
	char path[40];

	if (!atomic_load_explicit(&any, memory_order_relaxed))
		return false;
	sr_find_path(fd, path, sizeof(path));
	return sr_own_memory_path(path);
}
