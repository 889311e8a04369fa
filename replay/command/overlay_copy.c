/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/overlay_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static bool copy_bytes(int from, int to, uint64_t *room)
{
	ssize_t n;

	while ((n = sendfile(to, from, NULL, 1 << 20)) > 0) {
		if ((uint64_t)n > *room) {
			errno = ENOSPC;
			return false;
		}
		*room -= (uint64_t)n;
	}
	return !n;
}

/* Another owner's rights cannot be given: those of the file are kept. */
static void set_rights(int fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (fchown(fd, st->st_uid, st->st_gid))
		errno = 0;
	fchmod(fd, st->st_mode & 07777);
	futimens(fd, times);
}

static bool copy_file(int from, int to, const char *name, const struct stat *st, uint64_t *room)
{
	int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat unreadable = *st;
	bool done = out >= 0 && (in < 0 || copy_bytes(in, out, room));
	int error = errno;

	unreadable.st_mode &= ~07777u;
	if (out >= 0) {
		set_rights(out, in < 0 ? &unreadable : st);
		close(out);
	}
	if (in >= 0)
		close(in);
	errno = error;
	return done;
}

static bool copy_directory(int to, const char *name, const struct stat *st)
{
	int fd = mkdirat(to, name, 0700) ? -1 : openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return false;
	set_rights(fd, st);
	close(fd);
	return true;
}

static bool copy_link(int from, int to, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = '\0';
	return !symlinkat(target, to, name);
}

static bool copy_entry(int from, int to, const char *name, uint64_t *room)
{
	struct stat st;

	if (!strcmp(name, ".") || !strcmp(name, "..") || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return true;
	if (S_ISDIR(st.st_mode))
		return copy_directory(to, name, &st);
	if (S_ISLNK(st.st_mode))
		return copy_link(from, to, name);
	return S_ISREG(st.st_mode) ? copy_file(from, to, name, &st, room) : !mknodat(to, name, S_IFREG | 0600, 0);
}

bool sr_overlay_copy(int from, int to, uint64_t *room)
{
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool done = true;

	if (!directory) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (done && (e = readdir(directory)))
		done = copy_entry(fd, to, e->d_name, room);
	error = errno;
	closedir(directory);
	errno = error;
	return done;
}
