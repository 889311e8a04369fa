/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "logd/base/highfd.h"
#include "logd/base/rawsys.h"

#define OWN_FILES "/proc/self/fd/"

static int directory = -1;
static atomic_bool links_can_be_refused; /* by openat2 */

/* A filter that kills for a call it does not know cannot be asked. */
static bool is_filtered(void)
{
	return sr_syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) != SECCOMP_MODE_DISABLED;
}

void sr_paths_restrict(void)
{
	atomic_store_explicit(&links_can_be_refused, false, memory_order_relaxed);
}

void sr_paths_start(void)
{
	long fd = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(OWN_FILES), O_PATH | O_DIRECTORY | O_CLOEXEC,
			     0, 0, 0);

	directory = fd < 0 ? -1 : sr_fd_raise((int)fd);
	atomic_store(&links_can_be_refused, !is_filtered());
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

/* Is it made of names only, so that without links it stands for itself? */
static bool is_plain(const char *path)
{
	for (const char *end;; path = end + 1) {
		end = strchrnul(path, '/');
		if (end == path || !strncmp(path, ".", (size_t)(end - path)) || !strncmp(path, "..", (size_t)(end - path)))
			return false;
		if (!*end)
			return true;
	}
}

/* False: it does not fit, or cannot be said. */
static bool make_full(int dirfd, const char *given, char *path, size_t size)
{
	size_t before = 0, n;

	if (!given)
		return false; /* the kernel says what is wrong with it */
	n = strlen(given);
	if (given[0] != '/') {
		if (dirfd != AT_FDCWD || !is_plain(given) || sr_syscall(SYS_getcwd, SR_ARG(path), (long)size, 0, 0, 0, 0) < 0 ||
		    path[0] != '/')
			return false;
		before = strlen(path);
		if (before > 1)
			path[before++] = '/';
	} else if (!is_plain(given + 1)) {
		return false;
	}
	if (before + n >= size)
		return false;
	memcpy(path + before, given, n + 1);
	return true;
}

long sr_open_without_links(int dirfd, const char *given, int flags, unsigned int mode, char *path, size_t size)
{
	struct open_how how = {
	    .flags = (uint32_t)flags,
	    .mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0,
	    .resolve = RESOLVE_NO_SYMLINKS,
	};
	long fd = -ELOOP;

	/* What is given for a file without a name is its directory. */
	if (atomic_load_explicit(&links_can_be_refused, memory_order_relaxed) && !(flags & __O_TMPFILE) &&
	    make_full(dirfd, given, path, size))
		fd = sr_syscall(SYS_openat2, dirfd, SR_ARG(given), SR_ARG(&how), sizeof(how), 0, 0);
	if (fd == -ENOSYS)
		sr_paths_restrict();
	if (fd < 0)
		path[0] = 0;
	return fd;
}

int sr_open_again(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return (int)sr_syscall(SYS_openat, AT_FDCWD, SR_ARG(path), flags | O_CLOEXEC, 0, 0, 0);
}
