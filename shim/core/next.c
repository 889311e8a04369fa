/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/next.h"

#include <dlfcn.h>

#include "logd/base/compiler.h"
#include "shim/core/symbols.h"
#include "shim/core/thread.h"

void *sr_next_find(const char *name, const char *version, void *_Atomic *cache)
{
	void *f = atomic_load_explicit(cache, memory_order_acquire);
	struct sr_thread *t = &sr_self;
	enum sr_heap before;

	if (f)
		return f;
	before = sr_enter(t); /* dlsym may allocate */
	/* Only architectures on which glibc had older versions have this version. */
	f = version ? sr_dlvsym(RTLD_NEXT, name, version) : NULL;
	if (!f)
		f = sr_dlsym(RTLD_NEXT, name);
	sr_leave(t, before);
	atomic_store_explicit(cache, f, memory_order_release);
	return f;
}

void *sr_next(struct sr_next_function *next)
{
	return sr_next_find(next->name, NULL, &next->function);
}

/* The bounds of the section that SR_NEXT fills, from the linker. */
extern struct sr_next_function __start_sr_nexts[] SR_HIDDEN;
extern struct sr_next_function __stop_sr_nexts[] SR_HIDDEN;

void sr_next_find_all(void)
{
	for (struct sr_next_function *next = __start_sr_nexts; next < __stop_sr_nexts; next++)
		sr_next(next);
}
