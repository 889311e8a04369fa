/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch_next.c: linked to watch.c: stands behind the shim in the search order, where
 * code written into libc's own functions is as well (UCX's memory hooks), and sees
 * what is mapped and unmapped.
 */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int watched_maps(void);
int watched_unmaps(void);
int watch_is_found(void);

static int maps, unmaps;

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	maps++;
	return (void *)syscall(SYS_mmap, addr, size, prot, flags, fd, offset);
}

void *mmap64(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));

static int own_munmap(void *addr, size_t size)
{
	unmaps++;
	return (int)syscall(SYS_munmap, addr, size);
}

int munmap(void *addr, size_t size) __attribute__((alias("own_munmap")));

/* By who is about to write code into what it finds. */
int watch_is_found(void)
{
	return dlsym(RTLD_DEFAULT, "munmap") == (void *)own_munmap;
}

int watched_maps(void)
{
	return maps;
}

int watched_unmaps(void)
{
	return unmaps;
}
