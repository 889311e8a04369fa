/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls files' states as programs do that were built with glibc before 2.33: by functions that take
 * a version. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int old_stat(int version, const char *path, struct stat *st);
int old_lstat(int version, const char *path, struct stat *st);
int old_fstat(int version, int fd, struct stat *st);
int old_fstatat(int version, int dirfd, const char *path, struct stat *st, int flags);
int old_mknod(int version, const char *path, mode_t mode, dev_t *device);
__asm__(".symver old_stat, __xstat@GLIBC_2.2.5");
__asm__(".symver old_lstat, __lxstat@GLIBC_2.2.5");
__asm__(".symver old_fstat, __fxstat@GLIBC_2.2.5");
__asm__(".symver old_fstatat, __fxstatat@GLIBC_2.4");
__asm__(".symver old_mknod, __xmknod@GLIBC_2.2.5");

enum { VERSION = 1, VERSION_OF_MKNOD = 0 };

static void print(const char *call, int result, const struct stat *st)
{
	printf("%s: %d", call, result);
	if (!result)
		printf(" inode %lu, %ld bytes, changed at %ld.%09ld", (unsigned long)st->st_ino,
		       (long)st->st_size, (long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	putchar('\n');
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/proc/self/exe";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	dev_t none = 0;

	print("stat", old_stat(VERSION, path, &st), &st);
	print("lstat", old_lstat(VERSION, path, &st), &st);
	print("fstat", old_fstat(VERSION, fd, &st), &st);
	print("fstatat", old_fstatat(VERSION, AT_FDCWD, path, &st, 0), &st);
	printf("mknod: %d\n",
	       old_mknod(VERSION_OF_MKNOD, argc > 2 ? argv[2] : "/", S_IFIFO | 0600, &none));
	return 0;
}
