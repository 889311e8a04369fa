/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * given_memory.c: asks for memory, and for what may be done with it, that one machine, or user, is given and another is refused.
 *
 *     given_memory
 *
 * Prints what it was given.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

#define MIB (1ul << 20)
#define GIB (1ul << 30)

static void tell(const char *what, int err)
{
	printf("%s: %s\n", what, err ? strerror(errno) : "given");
}

static void map(const char *what, size_t size, int flags)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

	tell(what, p == MAP_FAILED);
	if (p != MAP_FAILED)
		munmap(p, size);
}

int main(void)
{
	char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && !ibv_fork_init());
	tell("mlock", mlock(p, MIB));
	tell("mlock2", mlock2(p, MIB, MLOCK_ONFAULT));
	tell("munlock", munlock(p, MIB));
	tell("advice that no kernel has", madvise(p, MIB, 0x7fff));
	tell("huge pages", madvise(p, MIB, MADV_HUGEPAGE));
	for (int i = 0; i < 2; i++) {
		map("a little", MIB, MAP_PRIVATE);
		map("much", 256 * GIB, MAP_PRIVATE | MAP_NORESERVE);
	}
	map("locked", MIB, MAP_PRIVATE | MAP_LOCKED);
	map("locked and shared", MIB, MAP_SHARED | MAP_LOCKED | MAP_POPULATE);
	return 0;
}
