/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/gone.h"

#include <errno.h>

#include "logd/base/rawsys.h"

bool sr_thread_is_gone(int32_t tid)
{
	long pid = sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	return sr_syscall(SYS_tgkill, pid, tid, 0, 0, 0, 0) == -ESRCH;
}

void sr_thread_wait_gone(int32_t tid)
{
	const struct timespec a_moment = {.tv_nsec = 20000};

	/* The first thread stays as a zombie until the process has ended. */
	if (tid == sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) || tid == sr_sys_gettid())
		return;
	while (!sr_thread_is_gone(tid))
		sr_sys_nanosleep(&a_moment);
}
