/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/shared_memory.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/vfs.h>

#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/thread.h"
#include "shim/verbs/regions.h"

/*
 * A file of a disk may be shared, too, but mostly is a database's own; what is in it counts as an
 * input. Files of /dev/shm and memfds are made to be shared.
 */
static bool is_shared_memory(int fd)
{
	struct statfs fs;

	return !sr_syscall(SYS_fstatfs, fd, SR_ARG(&fs), 0, 0, 0, 0) && fs.f_type == TMPFS_MAGIC;
}

static bool may_be_exposed(const uint64_t a[6])
{
	return a[2] == (PROT_READ | PROT_WRITE) && a[3] & MAP_SHARED && !(a[3] & MAP_ANONYMOUS) &&
	       is_shared_memory((int)a[4]);
}

/* The mapping has a record of its own, so that a replay does the same at the same place. */
static void announce(void *addr, size_t size, void *site)
{
	uint64_t a[] = {(uintptr_t)addr, size};

	sr_call(SR_CALL_shared_mapping, a, site);
}

void sr_shared_mapped(void *addr, const uint64_t a[6], void *site)
{
	/* The replay's file is a private one, which may lie on another file system. */
	if (sr_engine->replays ? sr_engine->comes_next(&sr_self, SR_CALL_shared_mapping)
			       : may_be_exposed(a))
		announce(addr, a[1], site);
}

void sr_shared_attached(void *addr, size_t size, int flags, void *site)
{
	if (size && !(flags & SHM_RDONLY))
		announce(addr, size, site);
}

uint64_t sr_invoke_shared_mapping(const struct sr_call_desc *d, uint64_t *a)
{
	return sr_regions_share((void *)a[0], a[1]);
}

void sr_replayed_shared_mapping(const struct sr_call_desc *d, uint64_t *a, uint64_t result)
{
	if (!result || sr_regions_share((void *)a[0], a[1]))
		return;
	sr_say("the program's shared memory at %#llx was watched when it was recorded, which is "
	       "not possible now",
	       (unsigned long long)a[0]);
	sr_engine->fail();
}
