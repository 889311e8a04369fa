/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/base/highfd.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "logd/base/rawsys.h"

/* Programs hardly ever have more files open than that. */
#define HIGHEST 65536
/* How many numbers sreplay needs. */
#define ROOM	   24
#define SMALL_ROOM 8

#define SOFT 0
#define HARD 1

int sr_fd_floor(void)
{
	uint64_t limit[2] = {1024, 1024}, hard;

	sr_sys_getrlimit(RLIMIT_NOFILE, limit);
	hard = limit[HARD];
	if (hard >= HIGHEST + ROOM)
		return HIGHEST;
	return (int)(hard - (hard < 256 ? SMALL_ROOM : ROOM));
}

/* The number must be below the soft limit at that moment, but stays open if it is not later. */
static long duplicate_above_limit(int fd, int floor)
{
	uint64_t before[2], now[2];
	long high;

	if (sr_sys_getrlimit(RLIMIT_NOFILE, before))
		return -1;
	now[SOFT] = now[HARD] = before[HARD];
	if (sr_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, SR_ARG(now), 0, 0, 0))
		return -1;
	high = sr_sys_fcntl(fd, F_DUPFD_CLOEXEC, floor);
	sr_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, SR_ARG(before), 0, 0, 0);
	return high;
}

static int take(int fd, long high)
{
	sr_sys_close(fd);
	return (int)high;
}

int sr_fd_raise(int fd)
{
	int floor = sr_fd_floor();
	long high;

	if (fd >= floor)
		return fd;
	high = sr_sys_fcntl(fd, F_DUPFD_CLOEXEC, floor);
	if (high < 0)
		high = duplicate_above_limit(fd, floor);
	/* If none is free there, a lower one will do. */
	for (long from = floor / 2; high < 0 && from > fd; from /= 2)
		high = sr_sys_fcntl(fd, F_DUPFD_CLOEXEC, from);
	return high < 0 ? fd : take(fd, high);
}
