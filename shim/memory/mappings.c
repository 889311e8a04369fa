/* SPDX-License-Identifier: BSD-2-Clause */
/* mappings.c: mmap and munmap: where what the program and the verbs libraries map lies, and who is told of it. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/engine.h"
#include "shim/core/symbols.h"
#include "shim/memory/heap.h"
#include "shim/memory/huge_pages.h"

/*
 * The next mmap and munmap; they may belong to another interposer. NULL during the search
 * for them, when the kernel is called directly.
 */
typedef void *mmap_function(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
typedef int munmap_function(void *addr, size_t size);

static mmap_function *other_mmap;
static munmap_function *other_munmap;

static void look_for_mappers(void)
{
	static bool asking;

	if (other_munmap || asking)
		return;
	asking = true;
	other_mmap = (mmap_function *)sr_dlsym(RTLD_NEXT, "mmap");
	other_munmap = (munmap_function *)sr_dlsym(RTLD_NEXT, "munmap");
	asking = false;
}

void *sr_heap_next_mapper(const char *name)
{
	look_for_mappers();
	if (!strcmp(name, "munmap"))
		return (void *)other_munmap;
	return !strcmp(name, "mmap") || !strcmp(name, "mmap64") ? (void *)other_mmap : NULL;
}

/*
 * False for a mapping that a library makes inside an intercepted call. Some programs watch
 * mmap and munmap by patching libc's functions (UCX does, for its registration cache). They
 * must not see such a mapping, because a replay does not make it.
 */
static bool is_watched(void)
{
	look_for_mappers();
	return sr_heap_is_programs();
}

static void *next_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *p;

	if (is_watched() && other_mmap)
		return other_mmap(addr, size, prot, flags, fd, offset);
	p = sr_sys_mmap(addr, size, prot, flags, fd, offset);
	if (sr_sys_is_error(p)) {
		errno = (int)-(intptr_t)p;
		return MAP_FAILED;
	}
	return p;
}

#define LISTENERS_MAX 8

static sr_mapping_listener listeners[LISTENERS_MAX];

void sr_heap_on_mapping_end(sr_mapping_listener listener)
{
	int i = 0;

	while (listeners[i])
		i++;
	listeners[i] = listener;
}

/*
 * Memory regions in this range stay registered, but the range is no memory of the program
 * any more.
 */
void sr_heap_mapping_ends(void *addr, size_t size)
{
	if (!sr_engine)
		return;
	for (int i = 0; i < LISTENERS_MAX && listeners[i]; i++)
		listeners[i](addr, size);
}

static sr_code_listener code_listeners[LISTENERS_MAX];

void sr_heap_on_code(sr_code_listener listener)
{
	int i = 0;

	while (code_listeners[i])
		i++;
	code_listeners[i] = listener;
}

void sr_heap_code_begins(void *addr, size_t size, int prot)
{
	for (int i = 0; i < LISTENERS_MAX && code_listeners[i]; i++)
		code_listeners[i](addr, size, prot);
}

bool sr_heap_may_not_place(long result)
{
	return result == -EINVAL;
}

/*
 * The verbs libraries map their queues with mmap. They get an address range of their own,
 * so that the program's mappings lie where they lie without them. (What ld.so maps for a
 * dlopen does not pass through here.)
 */
SR_EXPORT void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *place = addr;

	if (!sr_want_ordinary_pages(&size, &flags)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (!addr)
		place = sr_heap_is_programs() ? sr_heap_place_program(size, flags) : sr_heap_place_library(size);
	else if (flags & MAP_FIXED)
		sr_heap_mapping_ends(addr, size);
	place = next_mmap(place, size, prot, flags, fd, offset);
	if (!addr && place == MAP_FAILED && sr_heap_may_not_place(-errno))
		place = next_mmap(NULL, size, prot, flags, fd, offset);
	addr = place;
	if (prot & PROT_EXEC && addr != MAP_FAILED)
		sr_heap_code_begins(addr, size, prot);
	return addr;
}

SR_EXPORT int munmap(void *addr, size_t size)
{
	int err;

	sr_heap_mapping_ends(addr, size);
	if (is_watched() && other_munmap)
		return other_munmap(addr, size);
	err = (int)sr_sys_munmap(addr, size);
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

SR_EXPORT void *mmap64(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));
