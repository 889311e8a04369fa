/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw.h: system calls by number.
 *
 * What belongs to the device must not look like the program's own calls, to a recorder that
 * intercepts libc's.
 */
#ifndef SOFTDEV_RAW_H
#define SOFTDEV_RAW_H

#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int raw_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static inline void raw_close(int fd)
{
	syscall(SYS_close, fd);
}

static inline long raw_read(int fd, void *p, size_t size)
{
	return syscall(SYS_read, fd, p, size);
}

static inline void *raw_mmap(void *at, size_t size, int prot, int flags, int fd, uint64_t offset)
{
	return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, offset);
}

static inline void raw_munmap(void *at, size_t size)
{
	syscall(SYS_munmap, at, size);
}

static inline long raw_futex(uint32_t *word, int operation, uint32_t value,
			     const struct timespec *t)
{
	return syscall(SYS_futex, word, operation, value, t, NULL, 0);
}

#endif
