/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * private.c: the directory has, besides the private files themselves,
 *     kept/N   the content that the trace keeps for note N (a link, made by the command);
 *     empty    a directory that stands for one that the host does not have.
 */
#include "shim/files/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/memory/map.h"

static int directory = -1;

/* Standard input, output and error are those of the replay. */
#define INHERITED 3
static struct stat inherited[INHERITED];

void sr_private_start(int dir)
{
	directory = dir;
	for (int fd = 0; fd < INHERITED; fd++)
		sr_sys_fstat(fd, &inherited[fd]);
}

int sr_private_fd(void)
{
	return directory;
}

static long open_at(int dirfd, const char *path, int flags)
{
	return sr_syscall(SYS_openat, dirfd, SR_ARG(path), flags | O_CLOEXEC, 0600, 0, 0);
}

/* The content that was recorded, or the host's file. */
static long open_content(const struct sr_opened_file *f, int dirfd, const char *given, int flags)
{
	char kept[32];
	long fd = -ENOENT;

	if (f->note) {
		snprintf(kept, sizeof(kept), "kept/%u", f->note);
		fd = open_at(directory, kept, flags);
	}
	if (fd < 0 && f->path[0])
		fd = open_at(AT_FDCWD, f->path, flags);
	return fd < 0 ? open_at(dirfd, given, flags) : fd;
}

static long copy(int from, int to, uint64_t size)
{
	off_t at = 0;
	long n = 1;

	while ((uint64_t)at < size && n > 0)
		n = sr_syscall(SYS_sendfile, to, from, SR_ARG(&at), (long)(size - (uint64_t)at), 0,
			       0);
	return n < 0 ? n : 0;
}

static long fill(int to, const struct sr_opened_file *f, int dirfd, const char *given)
{
	long from = open_content(f, dirfd, given, O_RDONLY), err;

	if (from < 0)
		return from;
	err = copy((int)from, to, f->size);
	sr_sys_close((int)from);
	/* The host's file may be shorter now. */
	return err ? err : sr_sys_ftruncate(to, f->size);
}

static const char *name_of(const struct sr_opened_file *f, char name[24])
{
	snprintf(name, 24, "%016llx", (unsigned long long)f->key);
	return name;
}

/*
 * Makes the private file, and brings it to the content that it had when the program opened it.  What
 * it has already does not vanish meanwhile, since other threads may be reading it.
 */
static long prepare(const struct sr_opened_file *f, int dirfd, const char *given)
{
	char name[24];
	long fd = open_at(directory, name_of(f, name), O_RDWR | O_CREAT | O_EXCL), err = 0;
	bool is_new = fd >= 0;

	if (fd == -EEXIST)
		fd = open_at(directory, name, O_RDWR);
	if (fd < 0)
		return fd;
	/* Whatever the program's umask is, the file is opened again. */
	if (is_new)
		sr_syscall(SYS_fchmod, fd, 0600, 0, 0, 0, 0);
	if (!f->size)
		err = sr_sys_ftruncate((int)fd, 0);
	if (f->size && (f->note || is_new))
		err = fill((int)fd, f, dirfd, given);
	sr_sys_close((int)fd);
	return err;
}

static bool exists(const struct sr_opened_file *f)
{
	char name[24];

	return !sr_syscall(SYS_faccessat, directory, SR_ARG(name_of(f, name)), F_OK, 0, 0, 0);
}

#define ABOUT_NAMES (O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW | O_TMPFILE)
#define ABOUT_DISKS (O_DIRECT | O_SYNC | O_DSYNC | O_NOATIME)

static long open_file(const struct sr_opened_file *f, int dirfd, const char *given, int flags)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	char name[24];
	long fd, err;

	flags &= ~(ABOUT_NAMES | ABOUT_DISKS);
	if (!writes && !f->own && !exists(f)) {
		fd = open_content(f, dirfd, given, flags);
		if (fd >= 0 || f->size)
			return fd; /* an empty one need not be there any more */
	}
	err = prepare(f, dirfd, given);
	return err ? err : open_at(directory, name_of(f, name), flags);
}

/* A directory, whose entries are in the trace, or a device such as /dev/null. */
static long open_other(const struct sr_opened_file *f, int dirfd, const char *given, int flags)
{
	struct stat st;
	long fd = open_at(dirfd, given, flags & ~(O_CREAT | O_EXCL | O_TRUNC | __O_TMPFILE));

	if (fd >= 0 && (flags & O_PATH || (!sr_sys_fstat((int)fd, &st) && !S_ISREG(st.st_mode))))
		return fd;
	if (fd >= 0)
		sr_sys_close((int)fd);
	return open_at(directory, "empty", O_DIRECTORY | (flags & O_PATH));
}

long sr_private_open(const struct sr_opened_file *f, int dirfd, const char *given, int flags)
{
	long fd = f->class == SR_FD_FILE ? open_file(f, dirfd, given, flags)
					 : open_other(f, dirfd, given, flags);

	if (fd >= 0 && !(flags & O_CLOEXEC))
		sr_sys_fcntl((int)fd, F_SETFD, 0);
	return fd;
}

/* The inodes of private files that the program has mapped in order to store into them. */
static struct sr_map mapped;
static struct sr_lock content; /* held while a refresh decides and writes */

void sr_private_mapped(int fd)
{
	static char yes;
	struct stat st;
	void *old;

	if (directory < 0 || sr_sys_fstat(fd, &st))
		return;
	sr_lock(&content);
	sr_map_put(&mapped, st.st_ino, &yes, &old);
	sr_unlock(&content);
}

static bool is_mapped(const struct sr_opened_file *f)
{
	struct stat st;
	char name[24];

	return !sr_syscall(SYS_newfstatat, directory, SR_ARG(name_of(f, name)), SR_ARG(&st),
			   AT_SYMLINK_NOFOLLOW, 0, 0) &&
	       sr_map_get(&mapped, st.st_ino);
}

void sr_private_refresh(const struct sr_opened_file *f)
{
	if (directory < 0)
		return;
	sr_lock(&content);
	if (!is_mapped(f))
		prepare(f, AT_FDCWD, f->path);
	sr_unlock(&content);
}

bool sr_is_inherited(int fd)
{
	struct stat st;

	/* A closed one of the replay's own three is what it was; another one is a file that is missing. */
	if (sr_sys_fstat(fd, &st))
		return fd < INHERITED;
	for (int i = 0; i < INHERITED; i++)
		if (st.st_dev == inherited[i].st_dev && st.st_ino == inherited[i].st_ino)
			return true;
	return false;
}
