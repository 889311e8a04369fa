/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/fds.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "logd/rawsys.h"

static _Atomic uint64_t captured[SR_MAX_FD / 64];

bool sr_fd_captured(int fd)
{
	if (fd < 0 || fd >= SR_MAX_FD)
		return false;
	return atomic_load_explicit(&captured[fd / 64], memory_order_relaxed) >> (fd % 64) & 1;
}

void sr_fd_capture(int fd)
{
	if (fd >= 0 && fd < SR_MAX_FD)
		atomic_fetch_or_explicit(&captured[fd / 64], 1ull << (fd % 64),
					 memory_order_relaxed);
}

void sr_fd_release(int fd)
{
	if (fd >= 0 && fd < SR_MAX_FD)
		atomic_fetch_and_explicit(&captured[fd / 64], ~(1ull << (fd % 64)),
					  memory_order_relaxed);
}

void sr_fd_hold(int fd)
{
	long held;

	if (fd < 0)
		return;
	/* Something that can be polled, unlike /dev/null, and that is never ready to read. */
	held = sr_syscall(SYS_eventfd2, 0, O_CLOEXEC, 0, 0, 0, 0);
	if (held >= 0 && held != fd) {
		sr_syscall(SYS_dup3, held, fd, O_CLOEXEC, 0, 0, 0);
		sr_sys_close((int)held);
	}
	sr_fd_capture(fd);
}

void sr_fd_drop(int fd)
{
	if (!sr_fd_captured(fd))
		return;
	sr_fd_release(fd);
	sr_sys_close(fd);
}
