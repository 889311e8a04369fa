/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.c: the functions of libc that meet the descriptors of the connection manager. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "internal.h"

#define EXPORT __attribute__((visibility("default")))

/* glibc's names for its own functions. */
extern ssize_t __write(int fd, const void *buffer, size_t length);
extern int __close(int fd);

/* 0: free, 1: taken, 2: taken, and somebody waits. A pthread mutex may be a recorder's. */
static _Atomic uint32_t lock;

void cm_lock(void)
{
	uint32_t seen = 0;

	if (atomic_compare_exchange_strong(&lock, &seen, 1))
		return;
	while (atomic_exchange(&lock, 2))
		cm_sys(SYS_futex, &lock, FUTEX_WAIT_PRIVATE, 2, NULL);
}

void cm_unlock(void)
{
	if (atomic_exchange(&lock, 0) == 2)
		cm_sys(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1);
}

static void unlock_in_child(void)
{
	atomic_store(&lock, 0);
}

__attribute__((constructor)) static void prepare_for_forks(void)
{
	pthread_atfork(cm_lock, cm_unlock, unlock_in_child);
}

EXPORT ssize_t write(int fd, const void *buffer, size_t length)
{
	ssize_t n;

	if (!cm_may_be_channel(fd))
		return __write(fd, buffer, length);
	n = cm_command(fd, buffer, length);
	if (n == -EBADF)
		return __write(fd, buffer, length);
	if (n < 0)
		errno = (int)-n;
	return n < 0 ? -1 : n;
}

EXPORT int close(int fd)
{
	struct cm_channel *channel;

	if (!cm_may_be_channel(fd))
		return __close(fd);
	cm_lock();
	channel = cm_channel_find(fd);
	if (channel)
		cm_channel_close(channel);
	cm_unlock();
	return channel ? 0 : __close(fd);
}

/*
 * librdmacm asks the kernel by netlink for the number of the device. It gets an answer where
 * the module is loaded, and the device here must then have the same number.
 */
static dev_t device_number(void)
{
	char text[32] = "";
	long fd = cm_sys(SYS_openat, AT_FDCWD, "/sys/class/misc/rdma_cm/dev", O_RDONLY | O_CLOEXEC);
	const char *colon;

	if (fd >= 0) {
		cm_sys(SYS_read, fd, text, sizeof(text) - 1);
		cm_sys(SYS_close, fd);
	}
	colon = strchr(text, ':');
	return colon ? makedev((unsigned)atoi(text), (unsigned)atoi(colon + 1)) : makedev(10, 121);
}

static void make_character_device(int fd, struct stat *st)
{
	struct cm_channel *channel = NULL;

	if (!cm_may_be_channel(fd))
		return;
	cm_lock();
	channel = cm_channel_find(fd);
	cm_unlock();
	if (!channel)
		return;
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = device_number();
}

EXPORT int fstat(int fd, struct stat *st)
{
	long ret = cm_sys(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);

	if (ret < 0) {
		errno = (int)-ret;
		return -1;
	}
	make_character_device(fd, st);
	return 0;
}

EXPORT int fstat64(int fd, struct stat64 *st) __attribute__((alias("fstat")));
