/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/wait.h"

#include "logd/base/rawsys.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/x86/word.h"

/* How many threads watch; how often they were asked to stop it. */
static atomic_uint waiting, waits_ended;

void end_waits(void)
{
	atomic_fetch_add(&waits_ended, 1);
	while (atomic_load(&waiting))
		sr_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

NO_VECTORS static bool watch(const char *at, unsigned int size, uint64_t known, uint32_t pauses, unsigned int ended)
{
	for (uint32_t i = 0; i < pauses && atomic_load(&waits_ended) == ended; i++) {
		if (word_load(at, size) != known)
			return true;
		__builtin_ia32_pause();
	}
	return false;
}

NO_VECTORS bool wait_for_change(const char *at, unsigned int size, uint64_t known, uint32_t pauses)
{
	unsigned int ended = atomic_load(&waits_ended);
	bool changed;

	exposed_self.waits = true;
	atomic_fetch_add(&waiting, 1);
	exposed_unlock(NULL);
	changed = watch(at, size, known, pauses, ended);
	atomic_fetch_sub(&waiting, 1);
	exposed_lock(NULL);
	exposed_self.waits = false;
	return changed;
}
