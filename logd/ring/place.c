/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/place.h"

#include <sys/mman.h>

#include "logd/base/rawsys.h"

static void *(*place_hook)(size_t bytes);

void sr_place_set_hook(void *(*place)(size_t bytes))
{
	place_hook = place;
}

void *sr_place(size_t bytes)
{
	void *where = place_hook ? place_hook(bytes) : NULL;

	if (where)
		return where;
	return sr_sys_mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			   0);
}
