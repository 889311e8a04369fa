/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/heap_runs.h"

#include "logd/base/rawsys.h"
#include "logd/base/lock.h"
#include "shim/threads/gone.h"

static int32_t leaving; /* the id of a thread that may not be over yet; the owner's */

void sr_heap_leave(struct sr_thread *t)
{
	bool begun;

	if (!t->uses_heap)
		return;
	t->leaves_heap = true;
	begun = sr_heap_begin();
	if (begun)
		leaving = (int32_t)sr_sys_gettid();
	sr_heap_end(begun);
}

void sr_heap_wait_left(void)
{
	if (leaving)
		sr_thread_wait_gone(leaving);
	leaving = 0;
}

bool sr_heap_is_left(void)
{
	return leaving != 0;
}
