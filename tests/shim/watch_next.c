/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch_next.c: linked to watch.c: stands behind the shim in the search order, where
 * code written into libc's own functions is as well (UCX's memory hooks), and sees
 * what is mapped and unmapped.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int watched_maps(void);
int watched_unmaps(void);

static int maps, unmaps;

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	maps++;
	return (void *)syscall(SYS_mmap, addr, size, prot, flags, fd, offset);
}

void *mmap64(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));

int munmap(void *addr, size_t size)
{
	unmaps++;
	return (int)syscall(SYS_munmap, addr, size);
}

int watched_maps(void)
{
	return maps;
}

int watched_unmaps(void)
{
	return unmaps;
}
