/* SPDX-License-Identifier: BSD-2-Clause */
/* files.c: the functions of libc that take path names. */
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "paths.h"

/* The next library's function of this name, usually libc's. */
static void *find_next(const char *name, void *_Atomic *kept)
{
	void *f = atomic_load_explicit(kept, memory_order_acquire);

	if (!f) {
		f = dlsym(RTLD_NEXT, name);
		if (!f)
			abort(); /* a libc without it */
		atomic_store_explicit(kept, f, memory_order_release);
	}
	return f;
}

#define NEXT_AS(type, name)                                                                        \
	({                                                                                         \
		static void *_Atomic kept_;                                                        \
		(__typeof__(type) *)find_next(name, &kept_);                                       \
	})
#define NEXT(function) NEXT_AS(function, #function)

/*
 * Another name of a function above. Where a long has 64 bits, a function and its variant for large
 * files are the same but for the names of their types.
 */
#pragma GCC diagnostic ignored "-Wattribute-alias"
#define ALSO(function, name) extern __typeof__(name) name __attribute__((alias(#function)))
_Static_assert(sizeof(off_t) == 8 && sizeof(struct stat) == sizeof(struct stat64),
	       "the variants are the same");

/* ------------------------------------------------------------ open */

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
	char room[SF_ROOM];
	int fd = sf_open_device(path, flags);

	return fd == SF_NOT_A_DEVICE ? NEXT(openat)(directory, sf_path(path, room), flags, mode)
				     : fd;
}

static bool has_mode(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

static mode_t read_mode(int flags, va_list *arguments)
{
	return has_mode(flags) ? va_arg(*arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = read_mode(flags, &arguments);
	va_end(arguments);
	return open_at(AT_FDCWD, path, flags, mode);
}
ALSO(open, open64);

int openat(int directory, const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = read_mode(flags, &arguments);
	va_end(arguments);
	return open_at(directory, path, flags, mode);
}
ALSO(openat, openat64);

/* What the fortified macros call when there is no mode. libc ends a program that needs one. */
int __open_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat64_2(int directory, const char *path, int flags);

int __open_2(const char *path, int flags)
{
	return has_mode(flags) ? NEXT(__open_2)(path, flags) : open_at(AT_FDCWD, path, flags, 0);
}
ALSO(__open_2, __open64_2);

int __openat_2(int directory, const char *path, int flags)
{
	return has_mode(flags) ? NEXT(__openat_2)(directory, path, flags)
			       : open_at(directory, path, flags, 0);
}
ALSO(__openat_2, __openat64_2);

FILE *fopen(const char *path, const char *how)
{
	char room[SF_ROOM];

	return NEXT(fopen)(sf_path(path, room), how);
}
ALSO(fopen, fopen64);

/* ------------------------------------------------------- directories */

DIR *opendir(const char *path)
{
	char room[SF_ROOM];

	return NEXT(opendir)(sf_path(path, room));
}

int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
	    int (*compare)(const struct dirent **, const struct dirent **))
{
	char room[SF_ROOM];

	return NEXT(scandir)(sf_path(path, room), list, filter, compare);
}
ALSO(scandir, scandir64);

int chdir(const char *path)
{
	char room[SF_ROOM];

	return NEXT(chdir)(sf_path(path, room));
}

int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found)
{
	char room[SF_ROOM];
	const char *used = sf_path(pattern, room);
	size_t before = flags & GLOB_APPEND ? found->gl_pathc : 0;
	int result = NEXT(glob)(used, flags, error, found);

	if (used == pattern || (result && result != GLOB_ABORTED))
		return result;
	for (size_t i = before; i < found->gl_pathc; i++)
		sf_hide_tree(found->gl_pathv[(flags & GLOB_DOOFFS ? found->gl_offs : 0) + i]);
	return result;
}
ALSO(glob, glob64);

/* -------------------------------------------------------- attributes */

int stat(const char *path, struct stat *st)
{
	char room[SF_ROOM];

	return NEXT(fstatat)(AT_FDCWD, sf_path(path, room), st, 0);
}
ALSO(stat, stat64);

int lstat(const char *path, struct stat *st)
{
	char room[SF_ROOM];

	return NEXT(fstatat)(AT_FDCWD, sf_path(path, room), st, AT_SYMLINK_NOFOLLOW);
}
ALSO(lstat, lstat64);

int fstatat(int directory, const char *path, struct stat *st, int flags)
{
	char room[SF_ROOM];

	return NEXT(fstatat)(directory, sf_path(path, room), st, flags);
}
ALSO(fstatat, fstatat64);

int statx(int directory, const char *path, int flags, unsigned int mask, struct statx *st)
{
	char room[SF_ROOM];

	return NEXT(statx)(directory, sf_path(path, room), flags, mask, st);
}

/* What programs call that were linked with a glibc before 2.33; all versions of the struct are the
 * same. */
int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstatat(int version, int directory, const char *path, struct stat *st, int flags);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstatat64(int version, int directory, const char *path, struct stat64 *st, int flags);

int __xstat(int version, const char *path, struct stat *st)
{
	return stat(path, st);
}
ALSO(__xstat, __xstat64);

int __lxstat(int version, const char *path, struct stat *st)
{
	return lstat(path, st);
}
ALSO(__lxstat, __lxstat64);

int __fxstatat(int version, int directory, const char *path, struct stat *st, int flags)
{
	return fstatat(directory, path, st, flags);
}
ALSO(__fxstatat, __fxstatat64);

int access(const char *path, int mode)
{
	char room[SF_ROOM];

	return NEXT(access)(sf_path(path, room), mode);
}

int faccessat(int directory, const char *path, int mode, int flags)
{
	char room[SF_ROOM];

	return NEXT(faccessat)(directory, sf_path(path, room), mode, flags);
}

int euidaccess(const char *path, int mode)
{
	char room[SF_ROOM];

	return NEXT(euidaccess)(sf_path(path, room), mode);
}
ALSO(euidaccess, eaccess);

/* What ls -l asks for of each file; files of sysfs have none. */
ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	char room[SF_ROOM];

	return NEXT(getxattr)(sf_path(path, room), name, value, size);
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	char room[SF_ROOM];

	return NEXT(lgetxattr)(sf_path(path, room), name, value, size);
}

ssize_t listxattr(const char *path, char *list, size_t size)
{
	char room[SF_ROOM];

	return NEXT(listxattr)(sf_path(path, room), list, size);
}

ssize_t llistxattr(const char *path, char *list, size_t size)
{
	char room[SF_ROOM];

	return NEXT(llistxattr)(sf_path(path, room), list, size);
}

/* ------------------------------------------------------------- links */

/* The links of the tree are relative, so that they say what the kernel's would. */
ssize_t readlink(const char *path, char *text, size_t size)
{
	char room[SF_ROOM];

	return NEXT(readlink)(sf_path(path, room), text, size);
}

ssize_t readlinkat(int directory, const char *path, char *text, size_t size)
{
	char room[SF_ROOM];

	return NEXT(readlinkat)(directory, sf_path(path, room), text, size);
}

ssize_t __readlink_chk(const char *path, char *text, size_t size, size_t has);
ssize_t __readlinkat_chk(int directory, const char *path, char *text, size_t size, size_t has);
char *__realpath_chk(const char *path, char *result, size_t has);

ssize_t __readlink_chk(const char *path, char *text, size_t size, size_t has)
{
	char room[SF_ROOM];

	return NEXT(__readlink_chk)(sf_path(path, room), text, size, has);
}

ssize_t __readlinkat_chk(int directory, const char *path, char *text, size_t size, size_t has)
{
	char room[SF_ROOM];

	return NEXT(__readlinkat_chk)(directory, sf_path(path, room), text, size, has);
}

char *realpath(const char *path, char *result)
{
	char room[SF_ROOM];
	const char *used = sf_path(path, room);
	char *found = NEXT(realpath)(used, result);

	if (found && used != path)
		sf_hide_tree(found);
	return found;
}

char *__realpath_chk(const char *path, char *result, size_t has)
{
	char room[SF_ROOM];
	const char *used = sf_path(path, room);
	char *found = NEXT(__realpath_chk)(used, result, has);

	if (found && used != path)
		sf_hide_tree(found);
	return found;
}

char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}
