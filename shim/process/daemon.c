/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * daemon.c: libc's daemon() forks without a call that the shim could intercept, and its child would not be recorded.  In a
 * recorded process it is made of the same calls, which are.  They are the program's: nothing here is in a section.
 */
#include <errno.h>
#include <fcntl.h>
#include <paths.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/next.h"
#include "shim/core/thread.h"
#include "shim/process/children.h"

static bool is_null_device(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static int leave_streams(void)
{
	int fd = open(_PATH_DEVNULL, O_RDWR);

	if (fd < 0)
		return -1;
	if (!is_null_device(fd)) {
		close(fd);
		errno = ENODEV;
		return -1;
	}
	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
		dup2(fd, i);
	if (fd > STDERR_FILENO)
		close(fd);
	return 0;
}

SR_EXPORT int daemon(int nochdir, int noclose)
{
	SR_NEXT(next, "daemon");
	pid_t pid;

	if (!sr_engine_is_active() || sr_self.depth)
		return ((int (*)(int, int))sr_next(&next))(nochdir, noclose);
	pid = sr_children_fork(__builtin_return_address(0));
	if (pid < 0)
		return -1;
	if (pid)
		_exit(0);
	if (setsid() < 0)
		return -1;
	/* As in libc, a failure is not reported. */
	if (!nochdir)
		(void)!chdir("/");
	return noclose ? 0 : leave_streams();
}
