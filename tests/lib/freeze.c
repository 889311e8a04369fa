/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * freeze.c: preloaded into the daemon, makes calls that change a file system wait, as they do on one
 * that is frozen or has lost its server.
 *
 * FREEZE_BELOW names a directory D.  While D.frozen exists, whatever changes something below D
 * waits.  While D.slow exists, each write there takes as many milliseconds as that file says.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_below(const char *path)
{
	const char *dir = getenv("FREEZE_BELOW");
	size_t n = dir ? strlen(dir) : 0;

	return n && !strncmp(path, dir, n) && (path[n] == '/' || !path[n]);
}

static const char *mark(const char *suffix)
{
	static _Thread_local char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s.%s", getenv("FREEZE_BELOW"), suffix);
	return name;
}

static void wait_while_frozen(const char *path)
{
	while (is_below(path) && !access(mark("frozen"), F_OK))
		usleep(20000);
}

static void wait_if_slow(void)
{
	FILE *file = fopen(mark("slow"), "r");
	int ms = 0;

	if (!file)
		return;
	if (fscanf(file, "%d", &ms) == 1)
		usleep((useconds_t)ms * 1000);
	fclose(file);
}

static const char *path_of(int fd, const char *name)
{
	static _Thread_local char path[2 * PATH_MAX];
	char self[40];
	ssize_t n = 0;

	if (name && (*name == '/' || fd == AT_FDCWD))
		return name;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, path, PATH_MAX);
	path[n > 0 ? n : 0] = 0;
	if (name)
		snprintf(path + strlen(path), PATH_MAX, "/%s", name);
	return path;
}

static void change(int fd, const char *name)
{
	wait_while_frozen(path_of(fd, name));
}

static void write_to(int fd)
{
	const char *path = path_of(fd, NULL);

	wait_while_frozen(path);
	if (is_below(path))
		wait_if_slow();
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int mkdir(const char *path, mode_t mode)
{
	change(AT_FDCWD, path);
	return NEXT(mkdir)(path, mode);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	change(dir, path);
	return NEXT(mkdirat)(dir, path, mode);
}

int renameat(int dir, const char *path, int to_dir, const char *to)
{
	change(to_dir, to);
	return NEXT(renameat)(dir, path, to_dir, to);
}

ssize_t pwritev64(int fd, const struct iovec *iov, int n, off64_t offset)
{
	write_to(fd);
	return NEXT(pwritev64)(fd, iov, n, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
	write_to(fd);
	return NEXT(pwrite64)(fd, data, size, offset);
}

ssize_t write(int fd, const void *data, size_t size)
{
	write_to(fd);
	return NEXT(write)(fd, data, size);
}

int ftruncate64(int fd, off64_t size)
{
	write_to(fd);
	return NEXT(ftruncate64)(fd, size);
}

int openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
		change(dir, path);
	}
	return NEXT(openat64)(dir, path, flags, mode);
}
