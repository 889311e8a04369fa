/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/base/highfd.h"

#include <sys/resource.h>

#include "logd/base/rawsys.h"

#define HIGH 600

static long soft_limit(void)
{
	uint64_t limit[2] = {1024, 1024};

	sr_sys_getrlimit(RLIMIT_NOFILE, limit);
	return limit[0] < (1 << 20) ? (long)limit[0] : 1 << 20;
}

int sr_fd_raise(int fd)
{
	long limit = soft_limit(), from = limit > HIGH ? HIGH : limit - limit / 8;

	/* If none is free there, a lower one will do. */
	for (; from > fd; from /= 2) {
		long high = sr_sys_fcntl(fd, F_DUPFD_CLOEXEC, from);

		if (high >= 0) {
			sr_sys_close(fd);
			return (int)high;
		}
	}
	return fd;
}
